"""Fine-tune BERT on film reviews, data-parallel.

\b
    mindnlp-dp run --nproc 2 bert_imdb.py                                              # small model, generated reviews
    mindnlp-dp run --nproc 2 bert_imdb.py --model bert-base-uncased --dataset imdb     # both from the hub
    mindnlp-dp run --nproc 2 bert_imdb.py --model ./bert --dataset ./reviews.csv       # your own

The first is for the CPU of any laptop. On 2 x Ascend 910: see run_ascend.sh beside this file.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first of all: it lets MindNLP import, and joins the other ranks)

from pathlib import Path

from mindnlp.engine import Trainer, TrainingArguments

from mindnlp_dp_plugin.recipes.classification import load_model
from mindnlp_dp_plugin.recipes.models import add_lora
from mindnlp_dp_plugin.recipes.options import ClassificationOptions, parse
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.results import leave_results
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import accuracy_and_f1


def main():
    options = parse(__doc__, ClassificationOptions(output_dir=Path("bert_imdb_output"), small_model="bert"))
    folder = RunFolder(options.output_dir)
    folder.open(options.resume)

    # On rank 0: finds the text and label columns, drops empty rows, splits off a dev set if there is none, tokenises.
    # The others wait until it is on disk. The plugin deals the rows out to the ranks; this code need not know of them.
    data = prepare(options, folder.prepared)
    train_data = data.pipeline("train", options.batch_size, shuffle=True)
    dev_data = data.pipeline("dev", options.batch_size)

    with dp.main_process_first():  # rank 0 downloads it, if need be
        model = load_model(data.model, data.label_names)
    if options.lora:
        model = add_lora(model)

    training_args = TrainingArguments(
        output_dir=str(folder.checkpoints),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        group_by_length=options.group_by_length,
        learning_rate=options.chosen_learning_rate,
        evaluation_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=0.02,  # as a share of all steps
        seed=options.seed,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_data,
        eval_dataset=dev_data,
        tokenizer=data.tokenizer,
        compute_metrics=accuracy_and_f1(len(data.label_names)),
        callbacks=[dp.TensorBoardCallback(str(folder.tensorboard))],
    )
    trainer.train(resume_from_checkpoint=options.resume)
    leave_results(trainer, data, folder)  # scores, model, report; says where they are


if __name__ == "__main__":
    main()
