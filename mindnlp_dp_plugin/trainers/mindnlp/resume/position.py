"""Resume with the row after the last one trained, equal to the last bit."""

import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr


@dataclass(frozen=True)
class Position:
    """Where training stands.

    Attributes:
        epoch: The epoch.
        micro_steps_in_epoch: Micro-steps done in it.
        micro_steps: Micro-steps done since training first began.
    """

    epoch: int = 0
    micro_steps_in_epoch: int = 0
    micro_steps: int = 0


SPLIT = ("world_size", "batch size", "gradient_accumulation_steps")  # of a global batch

RECORDED = (
    *Position.__dataclass_fields__,
    "epoch_end_is_done",
    "host_random",
    "patience",
    "settings",
    "stopped_early",
    "total_loss",
    "with_optimizer",
)


class Resumption:
    """A checkpoint, and how to let the Trainer resume from it.

    Args:
        folder: The checkpoint.

    Attributes:
        nominal_accumulation: Micro-steps of a step when training first began, whose gradients were summed. Other
            micro-steps of the same global batch are weighted so that their sum is the same.
        end_is_due: Whether it was saved before what its epoch ends with, such as an evaluation.
        is_over: Whether no step is left to train. Known when the data set is placed, as the next.
        first_epoch: The epoch in which training goes on, if only with its end; None if nothing is left.

    Raises:
        DataParallelError: If it is damaged.
    """

    def __init__(self, folder: str):
        self.folder = Path(folder)
        self.record = store.read_record(folder)
        self.state = json.loads((self.folder / store.STATE).read_text(encoding="utf-8"))
        missing = [name for name in RECORDED if name not in self.record]
        if missing:
            raise DataParallelError(
                "Cannot resume from {folder!r}: {file} says nothing of {missing}. Another program has written it: take "
                "another checkpoint, or start from its weights with from_pretrained.",
                folder=folder,
                file=store.RECORD,
                missing=", ".join(missing),
            )
        self.position = Position(**{name: self.record[name] for name in Position.__dataclass_fields__})
        self.end_is_due = self.record.get("epoch_end_is_due", False)
        if not self.record["with_optimizer"]:
            raise DataParallelError(
                "Cannot resume from {folder!r}: it holds the model only (save_only_model=True). Start from its weights "
                "with from_pretrained.",
                folder=folder,
            )

    def place(self, dataset: ShardedDataset, settings: dict[str, Any], args) -> None:
        """Let ``dataset`` continue with the row after the last one trained.

        Args:
            dataset: This rank's share of the training data.
            settings: The result of ``settings_of``.
            args: The TrainingArguments. If the steps of an epoch have changed, ``max_steps`` is set so that training
                ends with the epoch it would have ended with. If an epoch is no longer than the accumulation,
                ``gradient_accumulation_steps`` is set so that training steps where it would have.

        Raises:
            DataParallelError: In the middle of an epoch, if ``settings`` are not those of the checkpoint, and not
                another split of the same global batch either.
        """
        saved = self.record["settings"]
        changed = [name for name in settings if settings[name] != saved[name]]
        is_same_batch = set(changed) <= set(SPLIT) and _global_batch(saved) == _global_batch(settings)
        before = self.record.get("nominal_accumulation", saved["gradient_accumulation_steps"])
        self.nominal_accumulation = before if is_same_batch else args.gradient_accumulation_steps
        if changed:
            position = self._in_micro_steps_of(settings) if is_same_batch else None
            reads_on = position and dataset.reads_on(saved["world_size"], saved["batch size"])
            if self.position.micro_steps_in_epoch and not reads_on:
                self._refuse(changed, saved, settings)
            self.position = position or self._at_a_whole_step(args.gradient_accumulation_steps)
        if changed and args.max_steps <= 0:
            updates_left = (args.num_train_epochs - self.position.epoch) * _updates_per_epoch(dataset, args)
            updates_left -= self.position.micro_steps_in_epoch // args.gradient_accumulation_steps
            args.max_steps = self.state["global_step"] + max(math.ceil(updates_left), 0)
        if dataset.num_steps is not None and dataset.num_steps <= args.gradient_accumulation_steps:
            args.gradient_accumulation_steps = AccumulationGoesOn(
                args.gradient_accumulation_steps, self.position, dataset.num_steps
            )
        self.is_over = self.record["stopped_early"] or self.state["global_step"] >= _max_steps(dataset, args)
        self._place_in_epoch(dataset)

    def write_stock_state(self, folder: str, dataset: ShardedDataset, args) -> None:
        """Write to ``folder`` the state from which MindNLP's loop derives its first epoch.

        MindNLP 0.4.1 derives the epoch from the step, wrongly if the last rows of an epoch wait for the next epoch to
        complete a step. It gets a step from which it derives the right epoch; ``Progress`` restores the true step.
        """
        epoch = sys.maxsize if self.first_epoch is None else self.first_epoch
        step = epoch * _updates_per_epoch(dataset, args)
        Path(folder, store.STATE).write_text(json.dumps({**self.state, "global_step": step}))

    def _place_in_epoch(self, dataset):
        epoch, micro_steps = self.position.epoch, self.position.micro_steps_in_epoch
        if self.end_is_due and micro_steps == 0:
            self.first_epoch = epoch - 1
            dataset.start_at(epoch - 1, dataset.num_steps or 0, is_at_end=True)
        elif self.end_is_due and self.is_over:
            self.first_epoch = epoch
            dataset.start_at(epoch, micro_steps, is_at_end=True)
        else:
            self.first_epoch = None if self.is_over else epoch
            dataset.start_at(epoch, micro_steps)

    def _in_micro_steps_of(self, settings):
        """The position counted in micro-steps of other sizes; None if it stands within one."""
        rows, of_micro_step = (each["world_size"] * each["batch size"] for each in (self.record["settings"], settings))
        micro_steps, rest = divmod(self.position.micro_steps_in_epoch * rows, of_micro_step)
        total = self.position.micro_steps * rows // of_micro_step
        return None if rest else Position(self.position.epoch, micro_steps, total)

    def _at_a_whole_step(self, accumulation):
        """The position at the end of an epoch, where a new optimizer step begins, whatever came before."""
        num_steps = math.ceil(self.position.micro_steps / accumulation)
        return replace(self.position, micro_steps=num_steps * accumulation)

    def _refuse(self, changed, saved, settings):
        differences = ", ".join(
            tr("{name} was {before} and is {now}", name=name, before=saved[name], now=settings[name])
            for name in changed
        )
        at_ends = store.at_epoch_ends(self.folder.absolute().parent)
        offered = tr(", here {folder!r}", folder=str(at_ends[0])) if at_ends else ""
        raise DataParallelError(
            "Cannot resume from {folder!r} with other settings: {differences}. It was saved in the middle of epoch "
            "{epoch}, whose rows were sharded by them. Take the old settings, {others}, or resume from a checkpoint "
            "saved at the end of an epoch{offered}.",
            folder=str(self.folder),
            differences=differences,
            epoch=self.position.epoch,
            others=_other_splits(_global_batch(saved), settings["world_size"]),
            offered=offered,
        )


def _global_batch(settings):
    return math.prod(settings[name] for name in SPLIT)


def _other_splits(global_batch, world_size):
    per_rank, rest = divmod(global_batch, world_size)
    if rest:
        fitting = ", ".join(str(number) for number in range(1, global_batch + 1) if global_batch % number == 0)
        return tr(
            "a number of ranks that divides the {rows} rows of a step ({fitting})", rows=global_batch, fitting=fitting
        )
    return tr(
        "a batch size and accumulation whose product is {product}, so that a step still has {rows} rows",
        product=per_rank,
        rows=global_batch,
    )


class AccumulationGoesOn(int):
    """``gradient_accumulation_steps`` of a resumed run whose epochs are no longer than the accumulation.

    MindNLP's loop steps when ``count % gradient_accumulation_steps`` is 0, with a count that restarts at 0 when it
    resumes, and at the end of such an epoch, which it does not recognise if it resumes in the middle. Here the
    remainder is that of the count since training first began, and 0 at the end of the resumed epoch.

    Args:
        accumulation: The number of micro-steps.
        position: Where the checkpoint stands.
        num_steps: Micro-steps of an epoch, no more than ``accumulation``.
    """

    def __new__(cls, accumulation: int, position: Position, num_steps: int):
        """As of an int."""
        self = super().__new__(cls, accumulation)
        self._made = position.micro_steps
        self._epoch_ends_after = num_steps - position.micro_steps_in_epoch
        return self

    def __rmod__(self, count):
        """``count % self``"""
        return 0 if count == self._epoch_ends_after else (self._made + count) % int(self)


def settings_of(dataset: ShardedDataset, args) -> dict[str, Any]:
    """The settings that decide which rows make a step; none may change in the middle of an epoch.

    Args:
        dataset: A rank's share of the training data.
        args: The TrainingArguments.
    """
    return {
        "world_size": args.world_size,
        Message("batch size"): dataset.get_batch_size(),
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
        "seed": args.seed,
        Message("number of rows"): dataset.num_rows,
        "group_by_length": args.group_by_length,
    }


def _max_steps(dataset, args):
    return (
        args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * _updates_per_epoch(dataset, args))
    )


def _updates_per_epoch(dataset, args):
    """As MindNLP's loop counts them."""
    steps = dataset.num_steps
    return args.max_steps if steps is None else max(steps // args.gradient_accumulation_steps, 1)
