"""Arguments of half precision that MindNLP takes and does not keep."""

import mindspore

from mindnlp_dp_plugin.errors import DataParallelError

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def refuse_mixed_precision(args) -> None:
    """Say that ``fp16`` and ``bf16`` do nothing: MindNLP 0.4.1 has no autocast, and no loss scaling.

    Args:
        args: The TrainingArguments.

    Raises:
        DataParallelError: If one of them is set.
    """
    for name, dtype in DTYPES.items():
        if getattr(args, name):
            raise DataParallelError(
                f"{name}=True is ignored by MindNLP's Trainer, which trains in the precision of the model: load the "
                f"model in half precision, from_pretrained(..., ms_dtype=mindspore.{dtype}), or leave {name} out."
            )


def dtype_of_evaluation(args):
    """The dtype that ``fp16_full_eval`` or ``bf16_full_eval`` asks for; None if neither does.

    Args:
        args: The TrainingArguments.

    Raises:
        DataParallelError: If the device cannot compute in it.
    """
    if args.bf16_full_eval and mindspore.get_context("device_target") == "CPU":
        raise DataParallelError(
            "bf16_full_eval=True: MindSpore has no operators for bfloat16 on CPU. Choose fp16_full_eval=True, or leave "
            "it out."
        )
    return mindspore.float16 if args.fp16_full_eval else mindspore.bfloat16 if args.bf16_full_eval else None
