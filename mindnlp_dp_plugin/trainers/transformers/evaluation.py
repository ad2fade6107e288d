"""The loss of an evaluation's batch: that of all ranks' batches as one, in which rows that fill one up have no part."""

import copy
import math
from typing import Any

import mindtorch
from transformers import Trainer
from transformers.trainer_pt_utils import find_batch_size

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.labels import count_labels, may_have_labels, name_of_labels
from mindnlp_dp_plugin.step.left_out import FIRST, left_out
from mindnlp_dp_plugin.trainers.transformers.rows import CLOSE, counted_rows

LOSS = Message("the loss of a batch")


class Scored:
    """What a rank scores.

    Without ``average_tokens_across_devices`` the Trainer exchanges nothing within: a loss is this rank's mean.

    Args:
        trainer: It is about to evaluate.
        collective: The ranks that evaluate together.
        rows: That a full batch of one rank is made of; None if its loader does not say.
        is_prepared: Whether its loader is accelerate's own. In one process the last loss of another counts as a full
            batch's; so it does with ``Seq2SeqTrainer``, which cuts nothing.
    """

    def __init__(self, trainer: Trainer, collective: Collective, rows: int | None, is_prepared: bool):
        self._trainer, self._collective, self._rows = trainer, collective, rows
        gathers = getattr(trainer.gather_function, "func", trainer.gather_function)
        self._is_cut = is_prepared and gathers == trainer.accelerator.gather_for_metrics
        self._name, self._left_out = name_of_labels(trainer.args.label_names, trainer.model), left_out(trainer.model)
        self._is_tried = self._left_out != FIRST

    def prediction_step(self, stock, model, inputs, prediction_loss_only, *args, **kwargs) -> tuple:
        """The Trainer's, with the loss of all ranks. All must call it."""
        given = copy.copy(inputs)  # to compute a loss takes labels out
        loss, *rest = stock(model, inputs, prediction_loss_only, *args, **kwargs)
        if loss is None:
            return loss, *rest
        rows = self._rows or find_batch_size(inputs)
        count = own = counted_rows(self._trainer, self._collective, rows)[0] if rows else 1
        if own and may_have_labels(given, self._name):
            if not self._is_tried and loss.item() and math.isfinite(loss.item()):
                self._try(loss.item(), lambda: stock(model, copy.copy(given), True, *args, **kwargs)[0].item())
            labels = count_labels(given, self._left_out, self._name)
            count = own if labels is None else labels
        if not self._is_cut:
            self._trainer.gather_function = self._gather_losses
        return mindtorch.zeros_like(loss) + self._mean(loss.item(), count), *rest

    def _mean(self, loss, count):
        of_ranks = self._collective.all_gather_object((loss if count else 0.0, count), LOSS)
        total = sum(count for _, count in of_ranks)
        return sum(each * count for each, count in of_ranks) / total if total else float("nan")

    def _try(self, loss, again):
        """What the Trainer counts holds the first label of each row, which a mean leaves out that shifts its labels."""
        with Patches() as patches:
            patches.stand_in(self._trainer, _twice, "_get_num_items_in_batch")
            is_mean = math.isclose(loss, again(), rel_tol=CLOSE)
        self._is_tried = True
        if not is_mean:
            self._left_out = None

    def _gather_losses(self, losses: Any) -> Any:
        self._trainer.gather_function = self._trainer.accelerator.gather_for_metrics
        return self._trainer.accelerator.gather(losses)


def _twice(stock, *args):
    count = stock(*args)
    return count if count is None else 2 * count
