"""Keep losses that are nan or infinite out of the sum that is logged, without a wait of the host."""

import mindspore

from mindnlp_dp_plugin.patching import Replacements


class LossFilter:
    """Does on the device what ``logging_nan_inf_filter`` asks for; MindNLP's loop reads each loss to test it.

    A loss that is not finite counts as the mean of those since the last log, as in MindNLP's loop.

    Args:
        trainer: The Trainer; its argument is False from a loss until what comes after the step is done with it.
        replacements: Restores the argument if training fails.
    """

    def __init__(self, trainer, replacements: Replacements):
        self._trainer = trainer
        self._is_wanted = trainer.args.logging_nan_inf_filter
        self._sum, self._begun_at = mindspore.tensor(0.0), None
        replacements.replace(trainer.args, "logging_nan_inf_filter", self._is_wanted)

    def follow(self, sum_of_losses: mindspore.Tensor) -> None:
        """Take the Trainer's own sum of the losses since the last log, which it may change until the next batch."""
        self._sum = sum_of_losses
        self._trainer.args.logging_nan_inf_filter = self._is_wanted

    def filtered(self, loss: mindspore.Tensor) -> mindspore.Tensor:
        """What the Trainer is to add to its sum for the loss of a micro-step."""
        if not self._is_wanted:
            return loss
        self._trainer.args.logging_nan_inf_filter = False  # the loop asks next, and would wait for the loss
        step = self._trainer.state.global_step
        self._begun_at = step if self._begun_at is None else self._begun_at
        num_steps = 1 + step - max(self._trainer._globalstep_last_logged, self._begun_at)
        counted = mindspore.ops.where(mindspore.ops.isfinite(loss), loss, self._sum / num_steps)
        self._sum = self._sum + counted
        return counted
