"""What forward computes in, and the scale of the loss that half precision needs."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import mindspore

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches


class Precision:
    """Forward in half precision, the loss scaled, and no step from gradients that overflowed.

    As in torch: parameters stay float32, ``Autocast`` casts what operators are given, and ``LossScaler`` keeps
    float16's gradients in its range.

    Args:
        dtype: What forward computes in; None for the model's own, and then this does nothing.
        config: The scale to begin with, and when it grows.
        patches: Takes the casts out again.

    Attributes:
        scaler: The scale, and what it counts; None where losses need none.
        has_overflowed: Whether gradients of this step are not finite: the same on all ranks, as they are averaged.
    """

    def __init__(self, dtype: mindspore.Type | None, config: DataParallelConfig, patches: Patches):
        self._autocast, self.scaler, self.has_overflowed = None, None, False
        if dtype is None:
            return
        from mindnlp_dp_plugin.mixed_precision import Autocast, LossScaler  # of MindNLP 0.4's operators

        self._autocast = Autocast(dtype, patches)
        if dtype == mindspore.float16:
            self.scaler = LossScaler(config.fp16_initial_scale, config.fp16_growth_interval)

    @property
    def scale(self) -> float:
        """The factor of the loss."""
        return self.scaler.scale if self.scaler else 1

    def running(self):
        """A context in which operators compute in half precision."""
        return self._autocast.running() if self._autocast else nullcontext()

    def begin_step(self) -> None:
        """An optimizer step begins: no gradient of it has overflowed yet."""
        self.has_overflowed = False

    def unscale(self, reducer: GradientReducer) -> None:
        """Give averaged gradients their true size."""
        if self.scaler:
            self.has_overflowed |= not reducer.averaged.unscale(self.scaler.scale)

    def skips_step(self) -> bool:
        """Whether the optimizer is to leave this step out."""
        return self.has_overflowed

    def hold_rate(self, scheduler_of_steps: Callable[[], Any], patches: Patches) -> None:
        """Keep the learning rate where the optimizer stays.

        Args:
            scheduler_of_steps: Returns what sets the learning rate after each step, as a loop may replace it.
            patches: Restores it.
        """

        def step(stock, scheduler, *args, **kwargs):
            is_skipped = self.skips_step() and scheduler is scheduler_of_steps()
            return None if is_skipped else stock(scheduler, *args, **kwargs)

        if not self.scaler:
            return
        from mindnlp.core.optim.lr_scheduler import ReduceLROnPlateau

        kind = type(scheduler_of_steps())
        if not issubclass(kind, ReduceLROnPlateau):  # that one steps after evaluations
            patches.stand_in(kind, step)  # what the instance holds would be saved with its state

    def end_step(self) -> None:
        """The optimizer has stepped, or left the step out."""
        if self.scaler:
            self.scaler.update(self.has_overflowed)

    def require(self, is_scaled: bool) -> None:
        """Raise if a loss that needs a scale was not multiplied by it."""
        if self.scaler and not is_scaled:
            raise DataParallelError(
                "fp16=True has to scale each loss: an overridden training_step must call "
                "super().training_step(model, inputs). Or leave fp16 out."
            )
