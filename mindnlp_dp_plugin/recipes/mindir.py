"""MindIR of a MindNLP model: MindSpore traces it, as its parser cannot read MindNLP's modules."""

import inspect
import math
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import mindspore
import numpy as np
from mindnlp.core import nn
from mindspore import ops

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches

TOLERANCE = 1e-5
CASTS = {
    "float": mindspore.float32,
    "half": mindspore.float16,
    "int": mindspore.int32,
    "long": mindspore.int64,
    "bool": mindspore.bool_,
}


def save_mindir(model, tokenizer, out: Path, batch_size: int, max_length: int) -> float:
    """Export a classification model, load it again, and compare the two on inputs that were not traced.

    Long, as what is patched, where files lie and what MindSpore refuses belong to one attempt.

    Args:
        model: MindNLP's, not training; its parameters are constants afterwards.
        tokenizer: Names its inputs, each int64 of shape ``(batch_size, max_length)``.
        out: The file, which ends with ``.mindir``.
        batch_size: Rows.
        max_length: Tokens of each.

    Returns:
        The largest difference of a logit.

    Raises:
        DataParallelError: If MindSpore cannot export it, or what was loaded gives other logits.
    """
    out = out.absolute()
    traced, others = (_inputs(model, tokenizer, (batch_size, max_length), seed) for seed in (0, 1))
    names = list(traced)
    wanted = model(**others).logits.asnumpy()
    for module in model.modules():  # a traced graph within an exported one may have no parameters
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = mindspore.Tensor(parameter.asnumpy())

    def logits(*inputs):
        return model(**dict(zip(names, inputs))).logits

    graph = mindspore.jit(logits, capture_mode="trace")

    def of_two(first, second):  # MindSpore parses what is given in stars, and does not trace it
        return graph(first, second)

    def of_three(first, second, third):
        return graph(first, second, third)

    with TemporaryDirectory(dir=out.parent, ignore_cleanup_errors=True) as scratch, ExitStack() as afterwards:
        written = Path(scratch, out.name)
        afterwards.callback(os.chdir, Path.cwd())
        os.chdir(scratch)  # where a graph cannot be compiled, MindSpore leaves files
        _use_what_can_be_written(afterwards.enter_context(Patches()))
        try:
            mindspore.export(
                of_three if len(names) == 3 else of_two, *traced.values(), file_name=str(written), file_format="MINDIR"
            )
            found = mindspore.nn.GraphCell(mindspore.load(str(written)))(*others.values()).asnumpy()
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip(" -")), type(error).__name__)
            raise DataParallelError(
                "MindSpore cannot export {model} as MindIR: {reason}", model=type(model).__name__, reason=reason
            ) from None
        difference = float(np.abs(found - wanted).max())
        if not difference <= TOLERANCE:
            raise DataParallelError(
                "MindIR of {model} gives other logits than the model, by {difference:.1e}: it was removed.",
                model=type(model).__name__,
                difference=difference,
            )
        written.rename(out)
    return difference


def _inputs(model, tokenizer, shape, seed):
    """Random rows of different lengths."""
    random = np.random.default_rng(seed)
    lengths = random.integers(shape[1] // 2, shape[1], shape[0])
    mask = (np.arange(shape[1]) < lengths[:, None]).astype(np.int64)
    tokens = random.integers(0, model.config.vocab_size, shape)
    kinds = {
        "input_ids": np.where(mask, tokens, tokenizer.pad_token_id),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    taken = inspect.signature(model.forward).parameters
    names = [name for name in tokenizer.model_input_names if name in taken]
    return {name: mindspore.Tensor(kinds[name], mindspore.int64) for name in names}


def _use_what_can_be_written(patches):
    """MindSpore's export writes neither casts by a tensor's method nor constants that it has folded, as GELU's root."""
    for name, dtype in CASTS.items():
        patches.replace(mindspore.Tensor, name, lambda tensor, dtype=dtype: ops.cast(tensor, dtype))
    for name in ("to", "astype"):
        patches.replace(mindspore.Tensor, name, _cast)
    patches.replace(nn.functional, "gelu", _gelu)
    caller = (None, __file__, 1, "", [""])  # tracing reads the source of each, and runpy has none
    patches.replace(inspect, "stack", lambda *_: [caller])


def _cast(tensor, *how, dtype=None, **_):
    for each in how:
        dtype = each.dtype if isinstance(each, mindspore.Tensor) else each
    return ops.cast(tensor, dtype) if isinstance(dtype, type(mindspore.float32)) else tensor


def _gelu(values, approximate="none"):
    """GELU (Hendrycks and Gimpel, 2016)."""
    if approximate == "tanh":
        return 0.5 * values * (1 + ops.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values * values * values)))
    return values * 0.5 * (1 + ops.erf(values * (1 / math.sqrt(2))))
