"""``fp16=True`` and ``bf16=True``, which MindNLP 0.4.1 takes and ignores, and evaluation in half precision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import mindspore
from mindnlp.core.optim.lr_scheduler import ReduceLROnPlateau

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.mixed_precision import Autocast, LossScaler, Masters, autocast, can_compute_in
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements


class MixedPrecision:
    """Forward in half precision, the loss scaled, and no step from gradients that overflowed.

    As in torch: parameters stay float32, ``Autocast`` casts what operators are given, and ``LossScaler`` keeps
    float16's gradients in its range. Does nothing if the arguments ask for neither ``fp16`` nor ``bf16``.

    Args:
        trainer: The Trainer.
        config: The scale to begin with, and when it grows.
        steps: What happens around the optimizer's steps.
        replacements: What takes it out again.

    Attributes:
        scaler: The scale, and what it counts; None where losses need none.
    """

    def __init__(self, trainer, config: DataParallelConfig, steps: WatchedSteps, replacements: Replacements):
        self._trainer = trainer
        self._autocast, self.scaler = None, None
        self._has_scaled = self._has_overflowed = False
        dtype = dtype_of_training(trainer.args)
        if dtype is None:
            return
        self._autocast = Autocast(dtype, replacements)
        if dtype == mindspore.float16:
            self.scaler = LossScaler(config.fp16_initial_scale, config.fp16_growth_interval)
            steps.skips = lambda: self._has_overflowed
            steps.after.append(lambda: self.scaler.update(self._has_overflowed))
            replacements.stand_in(trainer, self.log)
            if not isinstance(trainer.lr_scheduler, ReduceLROnPlateau):  # that one steps after evaluations
                # On the class: what the instance holds would be saved with its state.
                replacements.stand_in(type(trainer.lr_scheduler), self.step)

    def running(self):
        """A context in which operators compute in half precision."""
        return self._autocast.running() if self._autocast else nullcontext()

    def scaled(self, loss):
        """What backward is to start from."""
        self._has_scaled = True
        return loss * self.scaler.scale if self.scaler else loss

    def require_scaled(self) -> None:
        """Raise unless the loss of this micro-step was scaled."""
        if self.scaler and not self._has_scaled:
            raise DataParallelError(
                "fp16=True has to scale each loss: an overridden training_step must call "
                "super().training_step(model, inputs). Or leave fp16 out."
            )
        self._has_scaled = False

    def unscaled(self, loss):
        """What the Trainer is to sum for its own loss."""
        return loss / self.scaler.scale if self.scaler else loss

    def unscale(self, reducer: GradientReducer) -> None:
        """Give averaged gradients their true size. Whether they overflowed is the same on all ranks, as they are."""
        if self.scaler:
            self._has_overflowed = not reducer.unscale(self.scaler.scale)

    def log(self, stock, logs, *args, **kwargs):
        """Show the scale beside the training loss."""
        if "loss" in logs:
            logs = {**logs, "loss_scale": self.scaler.scale, "skipped_steps": self.scaler.num_skipped}
        return stock(logs, *args, **kwargs)

    def step(self, stock, scheduler, *args, **kwargs):
        """The learning rate stays where it is if the optimizer did."""
        is_skipped = self._has_overflowed and scheduler is self._trainer.lr_scheduler
        return None if is_skipped else stock(scheduler, *args, **kwargs)


def dtype_of_training(args):
    """The dtype that ``fp16`` or ``bf16`` asks for; None if neither does.

    Args:
        args: The TrainingArguments.

    Raises:
        DataParallelError: If both are asked for, or the device cannot compute in it.
    """
    if args.fp16 and args.bf16:
        raise DataParallelError("fp16=True and bf16=True: choose one of them.")
    return _dtype_asked_for(args, "fp16", "bf16")


def dtype_of_evaluation(args):
    """The dtype that ``fp16_full_eval`` or ``bf16_full_eval`` asks for; None if neither does.

    Args:
        args: The TrainingArguments.

    Raises:
        DataParallelError: If the device cannot compute in it.
    """
    return _dtype_asked_for(args, "fp16_full_eval", "bf16_full_eval")


def _dtype_asked_for(args, float16, bfloat16):
    if getattr(args, bfloat16) and not can_compute_in(mindspore.bfloat16):
        raise DataParallelError(
            "{bfloat16}=True: MindSpore has no operators for bfloat16 on CPU. Choose {float16}=True, or leave it out.",
            bfloat16=bfloat16,
            float16=float16,
        )
    return mindspore.float16 if getattr(args, float16) else mindspore.bfloat16 if getattr(args, bfloat16) else None


@contextmanager
def float32_masters(trainer) -> Iterator[None]:
    """A context for ``train``: what trains is float32 if the arguments ask for mixed precision."""
    if dtype_of_training(trainer.args) is None:
        yield
        return
    masters, replacements = Masters(), Replacements()

    def call_model_init(stock, *args, **kwargs):
        model = stock(*args, **kwargs)
        masters.make(model)
        return model

    replacements.stand_in(trainer, call_model_init)
    try:
        if trainer.model_init is None:
            masters.make(trainer.model)
        yield
    finally:
        replacements.undo()
        masters.undo()


@contextmanager
def computing_as_in_training(args) -> Iterator[Callable]:
    """A context for evaluation: operators compute in half precision if the arguments train so.

    Yields a function that turns a model's outputs back into float32, as accelerate does.
    """
    dtype = dtype_of_training(args)
    if dtype is None:
        yield lambda outputs: outputs
        return
    with autocast(dtype) as casts:
        yield casts.to_float32
