"""The losses that are logged: of all ranks, without those that are nan or infinite, and without a wait of the host."""

import math

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step import Step

ON_DEVICE = 256  # losses that are not read yet


def loss_filter_of(step: Step, trainer, collective: Collective, patches: Patches) -> "LossFilter":
    """The filter that suits how a step sums."""
    if step.micro_batches:
        return OrderedLosses(step, trainer, collective, patches)
    return LossFilter(trainer, collective, patches)


class LossFilter:
    """Does on the device what ``logging_nan_inf_filter`` asks for; MindNLP's loop reads each loss to test it.

    A loss that is not finite counts as the mean of those since the last log, as in MindNLP's loop. That is meant of the
    loss of all ranks: one that is not finite on any rank is not finite.

    Args:
        trainer: The Trainer; its argument is False from a loss until what comes after the step is done with it, as the
            loop would otherwise wait for each.
        collective: The ranks that train together.
        patches: Restores the argument if training fails.
    """

    def __init__(self, trainer, collective: Collective, patches: Patches):
        self._trainer, self._collective = trainer, collective
        self._is_wanted = trainer.args.logging_nan_inf_filter
        self._sum, self._begun_at = mindspore.tensor(0.0), None
        self._before = 0.0  # the sum of all ranks when it was last computed, if nobody logged it
        self._seen, self._on_device = [], []  # losses and steps of this rank since then
        self._is_common = False  # whether the Trainer's sum is that of all ranks, and nothing was added to it
        patches.replace(trainer.args, "logging_nan_inf_filter", self._is_wanted)

    def follow(self, sum_of_losses: mindspore.Tensor) -> None:
        """Take the Trainer's own sum of the losses since the last log, which it may change until the next batch."""
        self._sum = sum_of_losses
        self._trainer.args.logging_nan_inf_filter = self._is_wanted

    def filtered(self, loss: mindspore.Tensor) -> mindspore.Tensor:
        """What the Trainer is to add to its sum for the loss of a micro-step."""
        self._is_common = False
        if not self._is_wanted:
            return loss
        self._trainer.args.logging_nan_inf_filter = False
        step = self._trainer.state.global_step
        self._begun_at = step if self._begun_at is None else self._begun_at
        num_steps = 1 + step - max(self._trainer._globalstep_last_logged, self._begun_at)
        self._on_device.append((loss, num_steps))
        if len(self._on_device) == ON_DEVICE:
            self._read()
        counted = mindspore.ops.where(mindspore.ops.isfinite(loss), loss, self._sum / num_steps)
        self._sum = self._sum + counted
        return counted

    def sum_of_ranks(self, sum_of_losses: mindspore.Tensor) -> float:
        """The sum since the last log that one process with all rows would have. All ranks must call it.

        Args:
            sum_of_losses: The Trainer's.
        """
        return sum_of_losses.item() if self._is_common else self._sum_of_ranks(sum_of_losses)

    def make_common(self) -> None:
        """The Trainer's sum has become that of all ranks; to log it sets it to 0, on all of them."""
        self._is_common = True

    def _sum_of_ranks(self, sum_of_losses):
        self._read()
        is_finite = all(math.isfinite(loss) for loss, _ in self._seen)
        mine = sum_of_losses.item(), is_finite
        sums, are_finite = zip(*self._collective.all_gather_object(mine, Message("losses since the last log")))
        if all(are_finite) or len(sums) == 1:
            return sum(sums) / len(sums)
        of_ranks = self._collective.all_gather_object(self._seen, Message("each loss since the last log"))
        total = self._before
        for losses in zip(*of_ranks):
            mean = sum(loss for loss, _ in losses) / len(losses)
            _, num_steps = losses[0]
            total += mean if math.isfinite(mean) else total / num_steps
        return total

    def begin_anew(self, sum_of_losses: mindspore.Tensor) -> None:
        """All ranks hold the same sum; what comes is added to it."""
        self._before = sum_of_losses.item()
        self._seen = []

    def _read(self):
        if self._on_device:
            losses, steps = zip(*self._on_device)
            read = mindspore.ops.stack([loss.astype(mindspore.float32).reshape(()) for loss in losses]).asnumpy()
            self._seen += zip(read.tolist(), steps)
            self._on_device = []


class OrderedLosses(LossFilter):
    """Sums the losses of a step's micro-batches in their order, and those of steps exactly.

    The mean of a step is rounded to float32; so sums of steps in float64 are exact, and do not depend on where a run
    stopped and went on, or on the number of ranks.

    Args:
        step: Has the loss of each micro-batch.
        trainer: The Trainer.
        collective: The ranks that train together.
        patches: Restores the Trainer's argument if training fails.
    """

    def __init__(self, step: Step, trainer, collective: Collective, patches: Patches):
        super().__init__(trainer, collective, patches)
        self._step = step

    def filtered(self, loss):
        """The Trainer's own sum, of this rank, is replaced before it is used."""
        self._is_common = False
        self._trainer.args.logging_nan_inf_filter = False
        self._on_device.append(self._step.latest)
        if len(self._on_device) == ON_DEVICE:
            self._read()
        return loss

    def _sum_of_ranks(self, sum_of_losses):
        self._read()
        of_ranks = self._collective.all_gather_object(self._seen, Message("each loss since the last log"))
        per_step = len(self._step.micro_batches.mine)
        total = self._before
        for num_steps, begin in enumerate(range(0, len(self._seen), per_step), start=1):
            mean = _mean([pair for of_rank in of_ranks for pair in of_rank[begin : begin + per_step]])
            total += mean if math.isfinite(mean) or not self._is_wanted else total / num_steps
        return total

    def _read(self):
        losses = [counted.loss for counted in self._on_device if counted.loss is not None]
        if losses:
            losses = mindspore.ops.stack([loss.astype(mindspore.float32).reshape(()) for loss in losses]).asnumpy()
        values = iter(losses)
        self._seen += [(each.count, 0.0 if each.loss is None else float(next(values))) for each in self._on_device]
        self._on_device = []


def _mean(counted):
    total = sum(count for count, _ in counted)
    if not total:
        return 0.0
    if len({count for count, _ in counted}) == 1:  # as if each counted 1
        return float(np.float32(sum(loss for _, loss in counted) / len(counted)))
    return float(np.float32(sum(count * loss for count, loss in counted) / total))
