"""Resume with the row after the last one trained, equal to the last bit."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Position, Settings, differences
from mindnlp_dp_plugin.checkpoint.training import nothing_left
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.trainers.stops import stop_of

SPLIT = ("world_size", "batch_size", "gradient_accumulation_steps")  # of a global batch


class Resumption:
    """A checkpoint, and how to let the Trainer resume from it.

    Args:
        folder: The checkpoint.

    Attributes:
        nominal_accumulation: Micro-steps of a step when training first began, whose gradients were summed. Other
            micro-steps of the same global batch are weighted so that their sum is the same.
        end_is_due: Whether it was saved before what its epoch ends with, such as an evaluation.
        is_over: Whether no step is left to train. Known when the data set is placed, as the next.
        news: What the user must know of it; None if nothing.
        first_epoch: The epoch in which training goes on, if only with its end; None if nothing is left.

    Raises:
        DataParallelError: If it is damaged.
    """

    def __init__(self, folder: str):
        self.folder = Path(folder)
        self.record = store.read_record(folder)
        self.state = json.loads((self.folder / store.STATE).read_text(encoding="utf-8"))
        self.position = self.record.position
        self.end_is_due = self.record.epoch_end_is_due
        if not self.record.with_optimizer:
            raise DataParallelError(
                "Cannot resume from {folder!r}: it holds the model only (save_only_model=True). Start from its weights "
                "with from_pretrained.",
                folder=folder,
            )

    def place(self, dataset: ShardedDataset, settings: Settings, args) -> None:
        """Let ``dataset`` continue with the row after the last one trained.

        Args:
            dataset: This rank's share of the training data.
            settings: The result of ``settings_of``.
            args: The TrainingArguments. If the steps of an epoch have changed, ``max_steps`` is set so that training
                ends with the epoch it would have ended with.

        Raises:
            DataParallelError: In the middle of an epoch, if ``settings`` are not those of the checkpoint, and not
                another split of the same global batch either; or if it would step after other micro-steps.
        """
        stop = stop_of(str(self.folder), vars(self.record), self.state["global_step"])
        saved = self.record.settings
        changed = [name for name, value in vars(settings).items() if value != getattr(saved, name)]
        is_same_batch = set(changed) <= set(SPLIT) and saved.global_batch == settings.global_batch
        before = self.record.nominal_accumulation or saved.gradient_accumulation_steps
        self.nominal_accumulation = before if is_same_batch else args.gradient_accumulation_steps
        if changed:
            position = self._in_micro_steps_of(settings) if is_same_batch else None
            reads_on = position and dataset.reads_on(saved.world_size, saved.batch_size)
            if self.position.micro_steps_in_epoch and not (reads_on or args.ignore_data_skip):
                self._refuse(saved, settings)
            self.position = position or self._at_a_whole_step(args.gradient_accumulation_steps)
        if changed and args.max_steps <= 0:
            updates_left = (args.num_train_epochs - self.position.epoch) * _updates_per_epoch(dataset, args)
            updates_left -= self.position.micro_steps_in_epoch // args.gradient_accumulation_steps
            args.max_steps = self.state["global_step"] + max(math.ceil(updates_left), 0)
        self.is_over = bool(stop and stop.stays) or self.state["global_step"] >= _max_steps(dataset, args)
        self.news = self._news(stop)
        self._place_in_epoch(dataset, args.ignore_data_skip)
        if not (self.is_over or args.ignore_data_skip):
            self._require_same_steps(dataset.num_steps, args.gradient_accumulation_steps)

    def write_stock_state(self, folder: str, dataset: ShardedDataset, args) -> None:
        """Write to ``folder`` the state from which MindNLP's loop derives its first epoch.

        MindNLP 0.4.1 derives the epoch from the step, wrongly if the last rows of an epoch wait for the next epoch to
        complete a step. It gets a step from which it derives the right epoch; ``Progress`` restores the true step.
        """
        epoch = sys.maxsize if self.first_epoch is None else self.first_epoch
        step = epoch * _updates_per_epoch(dataset, args)
        Path(folder, store.STATE).write_text(json.dumps({**self.state, "global_step": step}))

    def _news(self, stop):
        if self.is_over and not (stop and stop.stays):
            return nothing_left(self.folder, self.state["global_step"])
        return stop and stop.news

    def _place_in_epoch(self, dataset, ignores_rows):
        epoch, micro_steps = self.position.epoch, self.position.micro_steps_in_epoch
        if self.end_is_due and micro_steps == 0:
            self.first_epoch = epoch - 1
            dataset.start_at(epoch - 1, dataset.num_steps or 0, is_at_end=True)
        elif self.end_is_due and self.is_over:
            self.first_epoch = epoch
            dataset.start_at(epoch, micro_steps, is_at_end=True)
        else:
            if ignores_rows:  # the epoch begins again
                self.position, micro_steps = replace(self.position, micro_steps_in_epoch=0), 0
            self.first_epoch = None if self.is_over else epoch
            dataset.start_at(epoch, micro_steps)

    def _require_same_steps(self, num_steps, accumulation):
        """MindNLP's loop counts micro-steps anew when it resumes, and misses the end of an epoch that it resumes in."""
        if num_steps is None or num_steps > accumulation:
            return
        counts_alike = self.position.micro_steps % accumulation == 0 or accumulation % num_steps == 0
        if self.position.micro_steps_in_epoch or not counts_alike:
            raise DataParallelError(
                "Cannot resume from {folder!r}: an epoch has {num_steps} batches a rank, no more than "
                "gradient_accumulation_steps={accumulation}, so other batches would make a step than without the stop. "
                "Set ignore_data_skip=True: the epoch and its accumulation begin anew.",
                folder=str(self.folder),
                num_steps=num_steps,
                accumulation=accumulation,
            )

    def _in_micro_steps_of(self, settings):
        """The position counted in micro-steps of other sizes; None if it stands within one."""
        rows, of_micro_step = self.record.settings.micro_batch, settings.micro_batch
        micro_steps, rest = divmod(self.position.micro_steps_in_epoch * rows, of_micro_step)
        total = self.position.micro_steps * rows // of_micro_step
        return None if rest else Position(self.position.epoch, micro_steps, total)

    def _at_a_whole_step(self, accumulation):
        """The position at the end of an epoch, where a new optimizer step begins, whatever came before."""
        num_steps = math.ceil(self.position.micro_steps / accumulation)
        return replace(self.position, micro_steps=num_steps * accumulation)

    def _refuse(self, saved, settings):
        whole = store.whole_in(self.folder.absolute().parent)
        at_end = next((each for each in whole if store.read_record(each).micro_steps_in_epoch == 0), None)
        offered = tr(", here {folder!r}", folder=str(at_end)) if at_end else ""
        raise DataParallelError(
            "Cannot resume from {folder!r} with other settings: {differences}. It was saved in the middle of epoch "
            "{epoch}, whose rows were sharded by the old ones. Use the old settings, {others}, or resume from a "
            "checkpoint saved at the end of an epoch{offered}.",
            folder=str(self.folder),
            differences=differences(vars(saved), vars(settings)),
            epoch=self.position.epoch,
            others=_other_splits(saved.global_batch, settings.world_size),
            offered=offered,
        )


def _other_splits(global_batch, world_size):
    per_rank, rest = divmod(global_batch, world_size)
    if rest:
        fitting = ", ".join(str(number) for number in range(1, global_batch + 1) if global_batch % number == 0)
        return tr(
            "a number of ranks that divides the {rows} rows of a step ({fitting})", rows=global_batch, fitting=fitting
        )
    return tr(
        "a batch size and accumulation whose product is {product}, so that a step still has {rows} rows (a source that "
        "is read in order needs the old batch size, group_by_length the old ranks x batch size)",
        product=per_rank,
        rows=global_batch,
    )


def settings_of(dataset: ShardedDataset, args) -> Settings:
    """What decides which rows make a step.

    Args:
        dataset: A rank's share of the training data.
        args: The TrainingArguments.
    """
    return Settings(
        args.world_size,
        dataset.get_batch_size(),
        args.gradient_accumulation_steps,
        args.seed,
        dataset.num_rows,
        args.group_by_length,
        dataset.is_elastic,
    )


def _max_steps(dataset, args):
    return (
        args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * _updates_per_epoch(dataset, args))
    )


def _updates_per_epoch(dataset, args):
    """As MindNLP's loop counts them."""
    steps = dataset.num_steps
    return args.max_steps if steps is None else max(steps // args.gradient_accumulation_steps, 1)
