"""The rows of a batch that count: accelerate fills the last batches of a pass up with rows from its beginning.

So that all ranks take as many steps, and of equal batches. One process would have a shorter last batch; what is filled
up is cut off again before a loss is computed, and a loss weighs what is left.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from transformers import Trainer
from transformers.loss import loss_utils

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.gather import PADDING
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.weights import count_tokens

TOKENS = Message("labels in a batch")


class CountedRows:
    """Cuts batches to the rows that count, and weighs their losses.

    A loss is a mean over rows, or over labels, or a sum over labels divided by their number on all ranks, which the
    Trainer counts and then multiplies by the ranks. It does so for every model that takes further arguments, also if
    its loss is a mean all the same: so which it is, is seen while the loss is computed.

    Args:
        trainer: Reads the batches.
        collective: The ranks that train together.
        patches: Takes out what sees how losses are computed.
    """

    def __init__(self, trainer, collective: Collective, patches: Patches):
        self._trainer, self._collective = trainer, collective
        self._shares = {}  # of each batch of a step: its own rows, and those of all ranks
        self._is_sum, self._is_multiplied = None, False
        patches.stand_in(loss_utils, self._see_sum, "fixed_cross_entropy")

    def cut(self, batches: Iterator[Mapping]) -> Iterator[Mapping]:
        """The batches of one optimizer step, as they are read."""
        self._shares = {}
        for batch in batches:
            own, total = counted_rows(self._trainer, self._collective, batch)
            if own < num_rows(batch):
                batch = first_rows(batch, max(own, 1))  # of a rank without any row, one is computed and weighs nothing
                if not own and self._will_be_sum(batch):
                    batch["labels"] = batch["labels"] * 0 + PADDING
            self._shares[id(batch)] = own, total
            yield batch

    def begin_loss(self) -> None:
        """The loss of a batch is about to be computed."""
        self._is_sum = self._trainer.compute_loss_func is not None
        self._is_multiplied = False

    def note_multiplied(self, is_multiplied: bool) -> None:
        """Whether the Trainer has multiplied the loss by the number of ranks."""
        self._is_multiplied |= is_multiplied

    def weigh(self, batch: Mapping, predicts_next_token: bool) -> float:
        """The factor of a loss that was computed that makes the mean over ranks the loss of one process.

        All ranks must call it.

        Args:
            batch: As ``cut`` has left it.
            predicts_next_token: Whether the model shifts its labels.

        Raises:
            DataParallelError: If a rank has no label that counts, of which it would compute 0 / 0.
        """
        if self._is_sum:
            return 1
        own, total = self._shares[id(batch)]
        if self._averages_labels(batch):
            labels = count_tokens(batch, predicts_next_token) if own else 0
            everyone = self._collective.all_gather_object((own, labels), TOKENS)
            if without := [rank for rank, (rows, count) in enumerate(everyone) if rows and not count]:
                raise DataParallelError(
                    "All labels of a batch are -100 on rank {rank}: its loss would be no number. Take a larger "
                    "per_device_train_batch_size.",
                    rank=without[0],
                )
            own, total = labels, sum(count for _, count in everyone)
        return own / total * (1 if self._is_multiplied else self._collective.world_size)

    def _see_sum(self, stock, source, target, num_items_in_batch=None, *args, **kwargs):
        if num_items_in_batch is not None:
            self._is_sum = True
        return stock(source, target, num_items_in_batch, *args, **kwargs)

    def _will_be_sum(self, batch):
        """As the last one was; before the first, as those of language models are."""
        labels = batch.get("labels")
        if labels is None or labels.is_floating_point() or not self._trainer.model_accepts_loss_kwargs:
            return False
        return labels.ndim > 1 if self._is_sum is None else self._is_sum

    def _averages_labels(self, batch):
        """Whether the model's own loss is a mean over labels of which a row has several."""
        labels, is_its_own = batch.get("labels"), type(self._trainer).compute_loss is Trainer.compute_loss
        return is_its_own and getattr(labels, "ndim", 0) > 1 and not labels.is_floating_point()


def counted_rows(trainer, collective: Collective, batch: Mapping) -> tuple[int, int]:
    """How many rows of the batch just read count, on this rank and on all."""
    state, own = trainer.accelerator.gradient_state, num_rows(batch)
    left = 0
    if state.end_of_dataloader and not trainer.args.dataloader_drop_last:
        # Not accelerate's remainder, which is unknown of a loader that skips what was read before resuming.
        with suppress(TypeError):  # evaluated data may have no length
            left = len(state.active_dataloader.dataset) % (own * collective.world_size)
    if not left:
        return own, own * collective.world_size
    return min(max(left - collective.rank * own, 0), own), left


def num_rows(batch: Mapping) -> int:
    """Rows of a batch."""
    return next(value.shape[0] for value in batch.values() if getattr(value, "ndim", 0))


def first_rows(batch: Mapping, number: int) -> dict[str, Any]:
    """A batch cut to its first rows."""
    rows = num_rows(batch)
    return {
        name: value[:number] if getattr(value, "ndim", 0) and value.shape[0] == rows else value
        for name, value in batch.items()
    }
