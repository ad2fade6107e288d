"""The recipe: fine-tune a classifier of texts on all ranks. ``python -m`` of this file is what each rank runs."""

import mindnlp_dp_plugin as dp  # isort: skip  (first of all: it lets MindNLP import, and joins the other ranks)

from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import AutoModelForSequenceClassification

from mindnlp_dp_plugin.recipes.models import add_lora
from mindnlp_dp_plugin.recipes.options import ClassificationOptions, parse
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.results import leave_results
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import accuracy_and_f1


def train(options: ClassificationOptions) -> dict:
    """Train, evaluate, and leave the run's folder. To be called on all ranks.

    Returns:
        What is in the folder's ``metrics.json``.

    Raises:
        DataParallelError: If the data, the model or the folder cannot be used.
    """
    folder = RunFolder(options.output_dir)
    folder.open(options.resume)
    data = prepare(options, folder.prepared)
    with dp.main_process_first():  # it may have to be downloaded
        model = load_model(data.model, data.label_names)
    if options.lora:
        model = add_lora(model)
    trainer = Trainer(
        model=model,
        args=training_arguments(options, folder),
        train_dataset=data.pipeline("train", options.batch_size, shuffle=True),
        eval_dataset=data.pipeline("dev", options.batch_size),
        tokenizer=data.tokenizer,
        compute_metrics=accuracy_and_f1(len(data.label_names)),
        callbacks=[dp.TensorBoardCallback(str(folder.tensorboard))],
    )
    trainer.train(resume_from_checkpoint=options.resume)
    return leave_results(trainer, data, folder)


def load_model(name: str, label_names: list[str]):
    """A model with a class for each label; a head for another number of classes is begun anew.

    Args:
        name: Model folder, or name in the hub.
        label_names: The classes; kept in the model's configuration.
    """
    return AutoModelForSequenceClassification.from_pretrained(
        name,
        num_labels=len(label_names),
        id2label=dict(enumerate(label_names)),
        label2id={label: number for number, label in enumerate(label_names)},
        ignore_mismatched_sizes=True,
    )


def training_arguments(options: ClassificationOptions, folder: RunFolder) -> TrainingArguments:
    """What the options say, for the Trainer: evaluated and saved after each epoch, logged fifty times in all."""
    return TrainingArguments(
        output_dir=str(folder.checkpoints),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        group_by_length=options.group_by_length,
        learning_rate=options.chosen_learning_rate,
        evaluation_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=0.02,
        seed=options.seed,
    )


if __name__ == "__main__":
    train(parse(__doc__, ClassificationOptions()))
