"""Train on all ranks, score, and write the output folder."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.data import packed_rows_of
from mindnlp_dp_plugin.distributed.gather import concatenate
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.callbacks import TRAINING, Terminal, Throughput
from mindnlp_dp_plugin.recipes.models import add_lora
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import PreparedData, prepare
from mindnlp_dp_plugin.recipes.results import introduction, leave_results, summary, to_beat
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.trainers.best_checkpoint import BestIsHere
from mindnlp_dp_plugin.trainers.mindnlp.public import (
    EarlyStoppingCallback,
    ProgressCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

TRACKERS = {
    "tensorboard": lambda home: dp.TensorBoardCallback(str(home / "tensorboard")),
    "wandb": lambda home: dp.WandbCallback(home, settings={"silent": True, "console": "off"}),
    "swanlab": lambda home: dp.SwanLabCallback(home / "swanlab"),
}


class RecipeTrainer(Trainer):
    """A Trainer with the loss of a task, if it has one of its own, and without a progress bar.

    Args:
        data: What it is trained on.
        options: How.
        callbacks: Beside ``throughput``.
        **how: Other arguments of the Trainer.

    Attributes:
        throughput: How fast the ranks train.
    """

    def __init__(self, data: PreparedData, options: RecipeOptions, callbacks: Sequence = (), **how):
        self.throughput = Throughput()
        super().__init__(tokenizer=data.tokenizer, callbacks=[self.throughput, *callbacks], **how)
        self._data = data
        self._loss, self._outputs = data.task.loss(data.facts, options), data.task.outputs
        self.remove_callback(ProgressCallback)

    def compute_loss(self, model, inputs, return_outputs=False):
        """The loss of a batch."""
        labels = inputs["labels"]
        if self._loss is None:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        else:
            outputs = model(**{name: values for name, values in inputs.items() if name != "labels"})
            loss = self._loss(outputs.logits, labels)
        if not return_outputs:
            return loss
        return loss, {"loss": loss, "logits": self._outputs(outputs.logits, labels)}

    def predict_split(self, split: str, rows: list[int] | None = None):
        """What ``predict`` returns for a split, or for some rows of it. All ranks must call it."""
        batch_size = self.args.per_device_train_batch_size
        return self.predict(self._data.pipeline(split, batch_size, rows=rows), metric_key_prefix=split)

    def scores_on(self, split: str) -> dict:
        """What ``metrics.json`` keeps about a split. All ranks must call it."""
        found = self.predict_split(split)
        scores = self._data.score(found.predictions, found.label_ids, split)
        return {**scores, "loss": found.metrics[f"{split}_loss"]}


def train(options: RecipeOptions, task: str = "classification") -> None:
    """Train, score, and write the output folder. All ranks must call it.

    Args:
        options: What to train on, and how.
        task: What is learnt.

    Raises:
        DataParallelError: If the data, the model or the folder cannot be used.
    """
    began = time.monotonic()
    folder = RunFolder(options.output_dir)
    if dp.is_main_process():
        folder.check(options)
        shutil.rmtree(folder.prepared, ignore_errors=True)
    set_seed(options.seed)  # a small model's first weights are drawn while the data are prepared
    try:
        data = prepare(options, folder.prepared, task)
        if options.resume:
            folder.require_same(data.facts["fingerprint"])
    except DataParallelError:
        if dp.is_main_process():
            shutil.rmtree(folder.prepared, ignore_errors=True)
        raise
    if dp.is_main_process():
        folder.begin(options, task, data.facts["fingerprint"])
    dp.barrier()
    options = replace(options, model=data.facts["chosen_model"], best_by=options.best_by or data.task.best_by[0])
    dp.print_rank_0(introduction(data))
    trainer, outcome = cross_validate(options, data, folder) if options.folds else train_once(options, data, folder)
    dp.barrier()  # every rank has read what was prepared, which is removed now
    if dp.is_main_process():
        results = leave_results(trainer, outcome, data, folder, options, began)
        shutil.rmtree(folder.prepared)
        print("\n" + summary(results, folder, options.trackers), flush=True)
    dp.barrier()


def train_once(options: RecipeOptions, data: PreparedData, folder: RunFolder) -> tuple[RecipeTrainer, dict]:
    """Train on ``train``, keep the epoch that is best on ``dev``, and score every other split."""
    trainer = make_trainer(options, data, folder)
    if data.task.generates:
        split = data.splits[-1]
        scores = trainer.scores_on(split)
        before = {**{name: scores[name] for name in data.task.shown}, "split": split}
        data.facts["baselines"] = {"before_training": before, **data.facts["baselines"]}
        dp.print_rank_0(to_beat(data.task, "before_training", before))
    trainer.train(resume_from_checkpoint=options.resume)
    return trainer, {"splits": {split: trainer.scores_on(split) for split in data.splits[1:]}, "folds": None}


def cross_validate(options: RecipeOptions, data: PreparedData, folder: RunFolder) -> tuple[RecipeTrainer, dict]:
    """Train once for each fold on all rows outside of it, and score it by its last epoch.

    The kept model is that of the fold with the best score; which epoch is best is not asked, as that would be chosen on
    the rows that are scored.
    """
    task, folds = data.task, data.facts["folds"]
    everything = [row for held in folds for row in held]
    parts, scores, best = [], [], None
    for number, held in enumerate(folds):
        shown = {"number": number + 1, "count": len(folds)}
        rest = sorted(set(everything) - set(held))
        trainer = make_trainer(options, data, folder, tr("fold {number} of {count}", **shown), rest)
        trainer.train()
        parts.append(trainer.predict_split("train", held))
        scores.append(task.score(parts[-1].predictions, parts[-1].label_ids, data.texts("train", held), data.facts))
        dp.print_rank_0(tr("fold {number} of {count}: {scores}", scores=task.in_words(scores[-1]), **shown))
        value = scores[-1][task.main_score]
        if best is None or task.is_worse(task.main_score, best[0], value):
            best = value, number, trainer
    logits, labels = (concatenate(each) for each in zip(*((part.predictions, part.label_ids) for part in parts)))
    _, kept, trainer = best
    splits = {"dev": data.score(logits, labels, "train", everything)}
    splits |= {split: trainer.scores_on(split) for split in data.splits[1:]}
    each = {name: [of[name] for of in scores] for name in task.shown}
    spread = {name: {"mean": mean(of), "std": stdev(of), "each": of} for name, of in each.items()}
    return trainer, {"splits": splits, "folds": {"count": len(folds), "kept": kept + 1, "scores": spread}}


def make_trainer(
    options: RecipeOptions,
    data: PreparedData,
    folder: RunFolder,
    heading: str = TRAINING,
    rows: list[int] | None = None,
) -> RecipeTrainer:
    """Make the Trainer for the options. All ranks must call it.

    Args:
        options: How to train.
        data: What on.
        folder: Gets checkpoints and event files.
        heading: What the progress bar is called.
        rows: Numbers of the rows to train on, for a fold, which has no epochs to choose among; None: all.
    """
    set_seed(options.seed)
    with dp.main_process_first():  # it may have to be downloaded
        model = data.begun_model(options.seed, rows)
    if options.lora:
        model = add_lora(model, options.lora_r, options.lora_alpha, data.task.lora_type)
    is_fold = rows is not None
    without = ("f1",) if data.facts.get("positive_label", "") is None else ()
    callbacks = [BestIsHere(), Terminal(data.task, heading, without)]
    if not is_fold:
        callbacks += [TRACKERS[name](folder.home) for name in options.trackers]
        if options.patience:
            callbacks.append(EarlyStoppingCallback(options.patience))
    train_dataset = data.pipeline("train", options.batch_size, shuffle=True, rows=rows, packing=options.packing)
    num_rows = data.facts["num_rows"]["train"] if rows is None else len(rows)
    if packed := packed_rows_of(train_dataset):
        num_rows = len(packed)
    in_a_step = dp.DataParallelConfig.from_env().micro_batches or dp.get_world_size() * options.accumulation
    epochs = options.chosen_epochs(num_rows, in_a_step)
    return RecipeTrainer(
        data,
        options,
        callbacks,
        model=model,
        args=training_arguments(options, folder, epochs, is_fold, data.task.falling),
        train_dataset=train_dataset,
        eval_dataset=None if is_fold else data.pipeline("dev", options.batch_size),
        compute_metrics=lambda found: data.task.scores_of(found.predictions, found.label_ids, data.facts),
    )


def training_arguments(
    options: RecipeOptions, folder: RunFolder, epochs: float, is_fold: bool = False, falling: tuple[str, ...] = ()
) -> TrainingArguments:
    """What the options say, for the Trainer: logged fifty times in all; without folds scored and saved each epoch."""
    each_epoch = "no" if is_fold else "epoch"
    return TrainingArguments(
        output_dir=str(folder.checkpoints),
        num_train_epochs=epochs,
        per_device_train_batch_size=options.batch_size,
        gradient_accumulation_steps=options.accumulation,
        group_by_length=options.group_by_length,
        learning_rate=options.chosen_learning_rate,
        lr_scheduler_type=options.scheduler,
        warmup_ratio=options.warmup_ratio,
        weight_decay=options.weight_decay,
        evaluation_strategy=each_epoch,
        save_strategy=each_epoch,
        save_total_limit=1,
        load_best_model_at_end=not is_fold,
        metric_for_best_model=options.best_by,
        greater_is_better=options.best_by not in ("loss", *falling),
        logging_steps=0.02,
        fp16=options.fp16,
        seed=options.seed,
    )
