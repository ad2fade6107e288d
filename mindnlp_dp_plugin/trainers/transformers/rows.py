"""The rows that a step counts: accelerate fills the last batches of a pass up with rows from its beginning.

So that all ranks take as many steps, and of equal batches. One process would have a shorter last batch. In training a
rank's last batch is short, too; a rank that would have none gets one row again, which weighs nothing. That is decided
before rows are read, so a collator may make of them what it wants.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import mindtorch
from accelerate.data_loader import BatchSamplerShard
from transformers import Trainer

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.gather import PADDING
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.nested import map_leaves
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.labels import count_labels, may_have_labels

TOKENS, KIND = Message("labels in a batch"), Message("what a loss is")
DIVIDED = 1.5  # a sum is halved by twice the number it is divided by; dropout alone changes a mean by less than this


class CountedRows:
    """Weighs the losses of a step by the rows that count.

    A loss is a mean over rows, or over labels, or a sum over labels divided by their number on all ranks, which the
    Trainer counts, hands on, and then multiplies by the ranks. It does so for every model that takes further arguments,
    also if its loss is a mean all the same. Which it is, is tried with the first batch: twice the number halves a sum.

    Args:
        trainer: Reads the batches.
        collective: The ranks that train together.
    """

    def __init__(self, trainer: Trainer, collective: Collective):
        self._trainer, self._collective = trainer, collective
        self._shares = {}  # of each batch of a step: its own rows, and those of all ranks
        self._is_sum, self._is_multiplied = None, False

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of one optimizer step, as they are read; labels of a row that another rank has do not count."""
        self._shares = {}
        for batch in batches:
            rows = self._trainer.args.per_device_train_batch_size
            own, total = counted_rows(self._trainer, self._collective, rows)
            if not own and self._will_be_sum(batch):
                batch["labels"] = batch["labels"] * 0 + PADDING
            self._shares[id(batch)] = own, total
            yield batch

    def counts(self, batch: Any) -> bool:
        """Whether a batch has rows that no other rank has."""
        own, _ = self._shares[id(batch)]
        return own > 0

    def begin_loss(self) -> None:
        """The loss of a batch is about to be computed."""
        self._is_multiplied = False

    def note_multiplied(self, is_multiplied: bool) -> None:
        """Whether the Trainer has multiplied the loss by the number of ranks."""
        self._is_multiplied |= is_multiplied

    def try_kind(self, loss: mindtorch.Tensor, loss_by_twice) -> None:
        """Find out once whether a loss is a sum that is divided by the number of labels. All ranks must call it.

        Args:
            loss: That of the first batch.
            loss_by_twice: Computes it again, with twice the number; None if the Trainer hands on none.
        """
        if self._is_sum is not None:
            return
        divided = None
        if loss_by_twice is not None and (first := abs(loss.item())) > 0:  # nan is no answer, either
            divided = first / max(abs(loss_by_twice().item()), 1e-30) > DIVIDED
        answers = self._collective.all_gather_object(divided, KIND)
        self._is_sum = next((answer for answer in answers if answer is not None), False)

    def weigh(self, batch: Any, door: Door) -> float:
        """The factor of a loss that was computed that makes the mean over ranks the loss of one process.

        All ranks must call it.

        Args:
            batch: As ``read`` has left it.
            door: Says whether the model shifts its labels, and which column they are.

        Raises:
            DataParallelError: If a rank has no label that counts, of which it would compute 0 / 0.
        """
        own, total = self._shares[id(batch)]
        if self._is_sum:
            return 1 if own else 0
        labels = count_labels(batch, door.predicts_next_token, door.labels) if own else 0
        if may_have_labels(batch, door.labels):
            labels = own if labels is None else labels
            everyone = self._collective.all_gather_object((own, labels), TOKENS)
            if without := [rank for rank, (rows, count) in enumerate(everyone) if rows and not count]:
                raise DataParallelError(
                    "All labels of a batch are -100 on rank {rank}: its loss would be nan. Use a larger "
                    "per_device_train_batch_size.",
                    rank=without[0],
                )
            own, total = labels, sum(count for _, count in everyone)
        return own / total * (1 if self._is_multiplied else self._collective.world_size)

    def _will_be_sum(self, batch):
        """As the first one was; before that, as those of language models are."""
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        is_counted = self._trainer.model_accepts_loss_kwargs or self._trainer.compute_loss_func is not None
        if labels is None or labels.is_floating_point() or not is_counted:
            return False
        return labels.ndim > 1 if self._is_sum is None else self._is_sum


def read_each_row_once(loader) -> None:
    """Let a prepared loader give this rank the rows alone that no other rank has.

    Args:
        loader: Of accelerate, over this rank's batches of training.
    """
    shard = getattr(loader, "batch_sampler", None)
    if isinstance(shard, BatchSamplerShard) and not shard.drop_last:
        shard.__class__ = _EachRowOnce


class _EachRowOnce(BatchSamplerShard):
    """Deals batches out in turn; a rank without one in the last turn reads the first row of the pass again."""

    def __iter__(self):
        batches, first = iter(self.batch_sampler), None
        while turn := [*islice(batches, self.num_processes)]:
            first = turn[0][:1] if first is None else first
            yield turn[self.process_index] if self.process_index < len(turn) else first


def counted_rows(trainer, collective: Collective, rows: int) -> tuple[int, int]:
    """How many rows of the batch just read count, on this rank and on all.

    Args:
        trainer: Reads them.
        collective: The ranks.
        rows: Rows that a full batch of one rank is made of.
    """
    state = trainer.accelerator.gradient_state
    left = 0
    if state.end_of_dataloader and not trainer.args.dataloader_drop_last:
        # Not accelerate's remainder, which is unknown of a loader that skips what was read before resuming.
        with suppress(TypeError):  # evaluated data may have no length
            left = len(state.active_dataloader.dataset) % (rows * collective.world_size)
    if not left:
        return rows, rows * collective.world_size
    return min(max(left - collective.rank * rows, 0), rows), left


def first_rows(batch: Any, number: int, rows: int) -> Any:
    """A batch cut to its first rows: what in it has as many rows as were read."""

    def cut(value):
        return value[:number] if getattr(value, "ndim", 0) and value.shape[0] == rows else value

    return map_leaves(cut, batch)
