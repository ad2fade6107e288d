"""Operators that MindSpore has not, or not on the CPU."""

import functools

from mindnlp_dp_plugin.compat.means import of_elements
from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.core.ops",
    bridges="clipping gradients of convolutions in one process (CANINE, Mamba, SqueezeBERT...): on CPU, mint.norm of "
    "a tensor of three dimensions or more returns None",
    obsolete_when="MindSpore's mint.norm takes any number of dimensions on CPU",
)
def norm_of_many_dimensions(ops):
    stock = ops.norm

    def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
        if dim is None and not keepdim and input.ndim > 2:
            input = input.reshape(-1)
        return stock(input, p, dim, keepdim, dtype=dtype)

    ops.norm = norm


@patch(
    module="mindnlp.core.ops",
    bridges="masked and causal language models of XLM-R, and NEZHA, OpenELM, TinyBERT and XLM-ProphetNet: they call "
    "functions of MindSpore's ops that mindnlp.core.ops has not",
    obsolete_when="mindnlp.core.ops has them",
)
def missing_operators(ops):
    import mindspore

    for name in ("dense", "gather_elements", "gelu", "nll_loss", "relu", "t"):
        setattr(ops, name, getattr(mindspore.ops, name))


@patch(
    module="mindnlp.core.ops",
    bridges="BROS: on CPU, arange refuses a float beside a whole number, and makes whole numbers of both",
    obsolete_when="mindnlp.core.ops.arange takes a mixture, as torch.arange",
)
def arange_of_floats(ops):
    import mindspore

    stock = ops.arange

    def arange(start=0, end=None, step=1, *, dtype=None):
        if any(isinstance(number, float) for number in (start, end, step)):
            start, end, step = float(start), None if end is None else float(end), float(step)
            dtype = dtype or mindspore.float32
        return stock(start, end, step, dtype=dtype)

    ops.arange = arange


@patch(
    module="mindspore",
    bridges="Pegasus and NLLB-MoE: Tensor.clone has no kernel on CPU",
    obsolete_when="MindSpore implements Tensor.clone on CPU",
)
def clone_on_cpu(mindspore):
    stock = mindspore.Tensor.clone

    def clone(self):
        return self.copy() if mindspore.get_context("device_target") == "CPU" else stock(self)

    mindspore.Tensor.clone = clone


@patch(
    module="mindspore",
    bridges="causal masks of BART, mBART, OPT, Falcon and others: on MindSpore 2.7, Tensor.masked_fill of floats by a "
    "whole number has no kernel on CPU",
    mindspore="<2.10",
    obsolete_when="MindSpore 2.7 is not supported any more",
)
def whole_numbers_in_masked_fill(mindspore):
    stock = mindspore.Tensor.masked_fill

    def masked_fill(self, mask, value):
        return stock(self, mask, float(value) if isinstance(value, int) and self.is_floating_point() else value)

    mindspore.Tensor.masked_fill = masked_fill


@patch(
    module="mindspore",
    bridges="PLBart, DeepSeek-V2 and MobileBERT: masked_fill_, scatter_add_, normal_, fill_... have no kernel on CPU",
    obsolete_when="MindSpore implements them on CPU",
)
def in_place_operators_on_cpu(mindspore):
    def in_place(stock, operator):
        @functools.wraps(stock)
        def method(self, *args, **kwargs):
            if mindspore.get_context("device_target") != "CPU":
                return stock(self, *args, **kwargs)
            return self.assign_value(operator(self, *args, **kwargs))

        return method

    def scatter_add(input, dim, index, src):
        return mindspore.ops.tensor_scatter_elements(input, index, src, dim, "add")

    def normal(input, mean=0, std=1, *, generator=None):
        initial = mindspore.common.initializer
        return initial.initializer(initial.Normal(std, mean), input.shape, input.dtype)

    tensor = mindspore.Tensor
    replaced = {
        "fill": mindspore.ops.full_like,
        "masked_fill": tensor.masked_fill,
        "normal": normal,
        "scatter_add": scatter_add,
        "zero": mindspore.ops.zeros_like,
    }
    for name, operator in replaced.items():
        if hasattr(tensor, f"{name}_"):
            setattr(tensor, f"{name}_", in_place(getattr(tensor, f"{name}_"), operator))


@patch(
    module="mindspore",
    bridges="Trainer.evaluate and predict: Tensor.repeat is 'not supported on this device' on CPU",
    obsolete_when="MindSpore implements Tensor.repeat on CPU",
)
def repeat_on_cpu(mindspore):
    stock = mindspore.Tensor.repeat

    def repeat(self, *repeats):
        if mindspore.get_context("device_target") != "CPU":
            return stock(self, *repeats)
        counts = tuple(repeats[0]) if isinstance(repeats[0], (tuple, list)) else repeats
        return mindspore.ops.tile(self.reshape(1) if self.ndim == 0 else self, counts)

    mindspore.Tensor.repeat = repeat


@patch(
    module="mindspore",
    bridges="evaluation of batches of different length: Tensor.new_full raises 'support Ascend only'",
    obsolete_when="MindSpore implements Tensor.new_full on CPU",
)
def new_full_on_cpu(mindspore):
    stock = mindspore.Tensor.new_full

    def new_full(self, size, fill_value, *, dtype=None):
        if mindspore.get_context("device_target") != "CPU":
            return stock(self, size, fill_value, dtype=dtype)
        return mindspore.ops.full(size, fill_value, dtype=dtype or self.dtype)

    mindspore.Tensor.new_full = new_full


@patch(
    module="mindnlp.core.ops",
    bridges="LoRA on a bfloat16 model: peft asks is_complex, which mindnlp.core.ops has not, as is_floating_point says "
    "no of bfloat16",
    obsolete_when="mindnlp.core.ops has is_complex, and its is_floating_point knows bfloat16",
)
def kinds_of_numbers(ops):
    import mindspore

    floats = (mindspore.float16, mindspore.bfloat16, mindspore.float32, mindspore.float64)
    ops.is_floating_point = lambda input: input.dtype in floats
    ops.is_complex = lambda input: input.dtype in (mindspore.complex64, mindspore.complex128)


@patch(
    module="mindnlp.core.ops",
    bridges="generate(num_beams=...): on CPU, a division that rounds down refuses int32 beside int64",
    obsolete_when="MindSpore's mint.div rounds whole numbers of two sizes on CPU",
)
def division_of_whole_numbers(ops):
    import mindspore

    stock, whole = ops.div, (mindspore.int32, mindspore.int64)

    def widened(value):
        if isinstance(value, int):
            return mindspore.Tensor(value, mindspore.int64)
        return value.astype(mindspore.int64) if getattr(value, "dtype", None) in whole else value

    def div(input, other, *, rounding_mode=None):
        if rounding_mode and isinstance(input, mindspore.Tensor) and input.dtype in whole:
            input, other = widened(input), widened(other)
        return stock(input, other, rounding_mode=rounding_mode)

    ops.div = div


@patch(
    module="mindnlp.core.nn.functional",
    bridges="several labels whose target a loss makes: the gradient of binary_cross_entropy_with_logits divides by the "
    "elements of the first batch",
    obsolete_when="MindSpore's gradient of the mean divides by the elements of its own call",
)
def mean_of_binary_cross_entropy(functional):
    functional.binary_cross_entropy_with_logits = of_elements(functional.binary_cross_entropy_with_logits)
