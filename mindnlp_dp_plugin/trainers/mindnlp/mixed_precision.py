"""``fp16=True`` and ``bf16=True``, which MindNLP 0.4.1 takes and ignores, and evaluation in half precision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mindspore

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.fully_sharded import is_shared_out, join_parameters
from mindnlp_dp_plugin.mixed_precision import Masters, autocast, can_compute_in
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.precision import Precision


def show_loss_scaling(trainer, precision: Precision, patches: Patches) -> None:
    """With ``fp16``: log the scale beside the training loss, and keep the learning rate where the optimizer stays.

    Args:
        trainer: The Trainer.
        precision: Scales its losses.
        patches: Restores the Trainer.
    """
    if precision.scaler is None:
        return

    def log(stock, logs, *args, **kwargs):
        if "loss" in logs:
            logs = {**logs, "loss_scale": precision.scaler.scale, "skipped_steps": precision.scaler.num_skipped}
        return stock(logs, *args, **kwargs)

    patches.stand_in(trainer, log)
    precision.hold_rate(lambda: trainer.lr_scheduler, patches)


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
    masters = Masters()

    def call_model_init(stock, *args, **kwargs):
        model = stock(*args, **kwargs)
        masters.make(model)
        return model

    try:
        with Patches() as patches:
            patches.stand_in(trainer, call_model_init)
            if trainer.model_init is None:
                masters.make(trainer.model)
            yield
            if masters.are_made:
                join_parameters(trainer.model)  # rounded next, on all ranks; behind an exception there may be no others
    finally:
        masters.undo(are_left_out=is_shared_out)


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
