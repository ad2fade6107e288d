"""The rows that a step counts: accelerate fills the last batches of a pass up with rows from its beginning.

So that all ranks take as many steps, and of equal batches. One process would have a shorter last batch. So a rank's
last batch is short, too; a rank that would have none gets one row again, which weighs nothing. That is decided before
rows are read, so a collator may make of them what it wants.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count, islice
from typing import Any

import mindtorch
from accelerate.data_loader import BatchSamplerShard
from transformers import Trainer

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.gather import PADDING
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import replaced
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.labels import count_labels, may_have_labels
from mindnlp_dp_plugin.trainers.transformers.draws import Draws

TOKENS, KIND = Message("labels in a batch"), Message("what a loss is")
MEAN, SUM, BOTH = "mean", "sum", "both"
CLOSE = 1e-4  # of a loss that is computed twice, with the same dropout


class CountedRows:
    """Weighs the losses of a step by what counts in its batches.

    A loss is a mean over rows, or over labels; or a sum over labels divided by their number on all ranks, which the
    Trainer counts and hands on to every model that takes further arguments, also if its loss is a mean all the same; or
    such a sum with a mean added to it. What it is, is tried when it matters, of a sum each time: twice the number
    halves it. A rank divides by its share of the number, so the mean over ranks is the sum of all, and the mean of
    means.

    Args:
        trainer: Reads the batches.
        collective: The ranks that train together.
    """

    def __init__(self, trainer: Trainer, collective: Collective):
        self._trainer, self._collective = trainer, collective
        self._shares = {}  # of each batch of a step: its own rows, and those of all ranks
        self._kind = None

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of one optimizer step, as they are read."""
        self._shares = {}
        for batch in batches:
            rows = self._trainer.args.per_device_train_batch_size
            self._shares[id(batch)] = counted_rows(self._trainer, self._collective, rows)
            yield batch

    def counts(self, batch: Any) -> bool:
        """Whether a batch has rows that no other rank has."""
        own, _ = self._shares[id(batch)]
        return own > 0

    def are_read_twice(self, batch: Any) -> bool:
        """Whether some rank has a row for this batch that another has, too."""
        _, total = self._shares[id(batch)]
        return total <= self._trainer.args.per_device_train_batch_size * (self._collective.world_size - 1)

    def without_labels_of_others(self, batches: Sequence) -> list:
        """The batches, for the Trainer to count labels in: a row that another rank has, too, has none."""
        return [
            batch
            if self.counts(batch) or not isinstance(batch, Mapping) or getattr(batch.get("labels"), "ndim", 0) < 1
            else {"labels": batch["labels"] * 0 + PADDING}
            for batch in batches
        ]

    def weighed(self, loss: mindtorch.Tensor, batch: Any, door: Door, by_twice: Callable | None) -> mindtorch.Tensor:
        """The loss of a batch with the factor that makes the mean over ranks the loss of one process.

        All ranks must call it.

        Args:
            loss: That of this rank's batch.
            batch: As it was read.
            door: Says whether the model shifts its labels, and which column they are.
            by_twice: Computes the loss again, divided by twice the number; None if the Trainer hands on none.

        Raises:
            DataParallelError: If a rank has no label that counts, of which it would compute 0 / 0.
        """
        own, total = self._shares[id(batch)]
        is_whole = total == self._trainer.args.per_device_train_batch_size * self._collective.world_size
        counts, share = [], own * self._collective.world_size / total
        if self._kind != SUM and may_have_labels(batch, door.labels):
            labels = count_labels(batch, door.leaves_out, door.labels) if own else 0
            everyone = self._collective.all_gather_object((own, own if labels is None else labels), TOKENS)
            counts = [count for _, count in everyone]
            share = counts[self._collective.rank] * self._collective.world_size / max(sum(counts), 1)
        if is_whole and (self._kind == SUM or (len(set(counts)) < 2 and 0 not in counts)):
            return loss
        kind = self._kind_of(loss, by_twice)
        if kind == MEAN:
            if without := [rank for rank, (rows, count) in enumerate(everyone if counts else ()) if rows and not count]:
                raise DataParallelError(
                    "All labels of a batch are -100 on rank {rank}: its loss would be nan. Use a larger "
                    "per_device_train_batch_size.",
                    rank=without[0],
                )
            return loss * share
        if kind == BOTH and not is_whole:
            halved = by_twice(with_gradients=True)  # on all ranks: a loss may exchange what they have
            loss = 2 * (loss - halved) + (2 * halved - loss) * (own * self._collective.world_size / total)
        return loss if own else loss * 0

    def _kind_of(self, loss, by_twice):
        if by_twice is None:
            return MEAN
        if self._kind in (None, SUM):  # a mean may be added later
            answers = self._collective.all_gather_object(_kind(loss.item(), by_twice().item()), KIND)
            found = {answer for answer in answers if answer}
            if found:
                self._kind = found.pop() if len(found) == 1 else BOTH
        return self._kind or MEAN


def _kind(loss, by_twice):
    """What a loss is, by what it is with twice the number; None if that cannot be told."""
    if not math.isfinite(loss) or not loss:
        return None
    if math.isclose(loss, by_twice, rel_tol=CLOSE):
        return MEAN
    return SUM if math.isclose(loss, 2 * by_twice, rel_tol=CLOSE) else BOTH


def deal_out(loader, draws: Draws) -> None:
    """Let a prepared loader read each row once, and each batch with draws of this rank's own.

    Args:
        loader: Of accelerate, over this rank's batches.
        draws: Where the rank's generators stand.
    """
    shard = getattr(loader, "batch_sampler", None)
    if isinstance(shard, BatchSamplerShard):
        shard.__class__ = _Shard if shard.drop_last else _EachRowOnce
        shard.draws, shard.epoch, shard.dataset = draws, 0, loader.dataset


class _Shard(BatchSamplerShard):
    """A rank's batches, which it reads with draws of its own; their order is drawn alike on all ranks."""

    def set_epoch(self, epoch):
        self.epoch = epoch
        for source in (self.batch_sampler, self.dataset):  # accelerate tells neither, if it tells a sampler
            if hasattr(source, "set_epoch"):
                source.set_epoch(epoch)

    def __iter__(self):
        batches = self.dealt()
        for number in count(1):
            self.draws.join()
            batch = next(batches, None)
            if batch is None:
                return
            self.draws.part(self.epoch, number)
            yield batch

    def dealt(self):
        return super().__iter__()


class _EachRowOnce(_Shard):
    """Deals batches out in turn; a rank without one in the last turn reads the first row of the pass again."""

    def dealt(self):
        batches, first = self._full_but_the_last(), None
        while turn := [*islice(batches, self.num_processes)]:
            first = turn[0][:1] if first is None else first
            yield turn[self.process_index] if self.process_index < len(turn) else first

    def _full_but_the_last(self):
        is_short = False
        for batch in self.batch_sampler:
            if is_short:
                raise DataParallelError(
                    "{sampler} gives a batch of fewer than {rows} rows before the end of a pass, which ranks cannot "
                    "weigh. Let every batch but the last have {rows} rows.",
                    sampler=type(self.batch_sampler).__name__,
                    rows=self.batch_size,
                )
            is_short = self.batch_size is not None and len(batch) < self.batch_size
            yield batch


def counted_rows(trainer, collective: Collective, rows: int) -> tuple[int, int]:
    """How many rows of the batch just read count, on this rank and on all.

    Args:
        trainer: Reads them.
        collective: The ranks.
        rows: Rows that a full batch of one rank is made of.
    """
    state = trainer.accelerator.gradient_state
    in_a_turn = rows * collective.world_size
    left = _rows_of_pass(state.active_dataloader) % in_a_turn if state.end_of_dataloader else 0
    if not left:
        return rows, in_a_turn
    return min(max(left - collective.rank * rows, 0), rows), left


def _rows_of_pass(loader):
    """How many rows a pass reads of which the last batch may be short; 0 where none is, or nobody knows.

    Not by accelerate's remainder, which is unknown of a loader that skips what was read before resuming.
    """
    batches = getattr(loader, "batch_sampler", None)
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    if getattr(batches, "drop_last", False):
        return 0
    with suppress(TypeError):  # evaluated data may have no length
        return len(getattr(batches, "sampler", None) or loader.dataset)
    return 0


def averaging_tokens(trainer: Trainer, is_on: bool) -> AbstractContextManager[None]:
    """A context in which ``average_tokens_across_devices`` is on or off."""
    return replaced(trainer.args, "average_tokens_across_devices", is_on)
