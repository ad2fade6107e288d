"""Functions of ``mindtorch`` whose numbers or gradients are not torch's, in silence."""

from mindnlp_dp_plugin.compat.means import of_elements
from mindnlp_dp_plugin.compat.patch import patch

CPU = "mindtorch._apis.cpu"


@patch(
    module="mindtorch.nn.functional",
    bridges="leaky_relu and smooth_l1_loss have another slope and reduction than torch's where none is given",
    obsolete_when="mindtorch's leaky_relu has negative_slope=0.01, and its smooth_l1_loss reduction='mean'",
)
def defaults_of_functions(functional):
    leaky_relu, smooth_l1_loss = functional.leaky_relu, functional.smooth_l1_loss
    functional.leaky_relu = lambda input, negative_slope=0.01, inplace=False: leaky_relu(input, negative_slope)
    functional.smooth_l1_loss = lambda input, target, size_average=None, reduce=None, reduction="mean", beta=1.0: (
        smooth_l1_loss(input, target, beta, reduction)
    )


@patch(
    module=CPU,
    bridges="on CPU split gives rows that do not divide as one part, and chunk fails; embedding trains the row of "
    "padding_idx, logsigmoid gives its first row alone, softplus ignores "
    "beta, addmm and baddbmm exchange alpha and beta, fmod has the divisor's sign, and as_strided takes other elements "
    "of what was transposed (Longformer)",
    obsolete_when="mindtorch._apis.cpu has these as torch does, and logsigmoid in a tuple",
)
def numbers_on_cpu(cpu):
    addmm, baddbmm, remainder, plain_softplus = cpu.addmm, cpu.baddbmm, cpu.fmod_tensor, cpu.softplus
    flat_strided, rows_of, evenly_split = cpu.as_strided, cpu.embedding, cpu.split_tensor

    def split_tensor(input, split_size, dim):
        length = input.shape[dim]
        if length and length % split_size == 0:
            return evenly_split(input, split_size, dim)
        sizes = [min(split_size, length - begin) for begin in range(0, length, split_size)]
        return cpu.split_with_size(input, tuple(sizes or [0]), dim)

    def chunk(input, chunks, dim):
        return split_tensor(input, max(1, -(-input.shape[dim] // chunks)), dim)

    def embedding(input, weight, padding_idx, *others):
        rows = rows_of(input, weight, padding_idx, *others)
        if padding_idx is None:
            return rows
        is_padding = cpu.expand_dims(cpu.eq(input, padding_idx % weight.shape[0]), -1)
        return cpu.select(cpu.broadcast_to(is_padding, rows.shape), cpu.stop_gradient(rows), rows)

    def softplus(input, beta=1, threshold=20):
        return plain_softplus(input) if beta == 1 else cpu.div(plain_softplus(cpu.mul(input, beta)), beta)

    def fmod(input, other):
        return cpu.mul(cpu.sign(input), remainder(cpu.abs(input), abs(other)))

    def as_strided(input, size, stride, storage_offset):
        if not input.is_contiguous():
            strides = input.stride()
            input = cpu.permute(input, tuple(sorted(range(input.ndim), key=lambda axis: -strides[axis])))
        return flat_strided(input, size, stride, storage_offset)

    cpu.split_tensor, cpu.chunk = split_tensor, chunk
    cpu.softplus, cpu.fmod_scalar, cpu.fmod_tensor = softplus, fmod, fmod
    cpu.as_strided, cpu.embedding = as_strided, embedding
    cpu.remainder_tensor_tensor = cpu.remainder_scalar_tensor = cpu.remainder_tensor_scalar
    cpu.logsigmoid = lambda input: (cpu.neg(plain_softplus(cpu.neg(input))),)
    cpu.addmm = lambda input, mat1, mat2, beta, alpha: addmm(input, mat1, mat2, alpha, beta)
    cpu.baddbmm = lambda input, batch1, batch2, beta, alpha: baddbmm(input, batch1, batch2, alpha, beta)


@patch(
    module=CPU,
    bridges="a loss for each label: on CPU that of a label that is left out is whatever the memory held, and labels "
    "with two places more than the rows are taken in another order",
    obsolete_when="mindtorch._apis.cpu.nllloss gives 0 for ignore_index, and nllloss_2d keeps the order of labels",
)
def losses_of_each_label(cpu):
    stock = cpu.nllloss

    def nllloss(input, target, weight, reduction, ignore_index):
        loss, *rest = stock(input, target, weight, reduction, ignore_index)
        if reduction == "none":
            loss = cpu.masked_fill(loss, cpu.eq(target, ignore_index), 0.0)
        return loss, *rest

    def nllloss_2d(input, target, weight, reduction, ignore_index):
        rows = cpu.reshape(cpu.permute(input, (0, 2, 3, 1)), (-1, input.shape[1]))
        loss, *rest = nllloss(rows, cpu.reshape(target, (-1,)), weight, reduction, ignore_index)
        return (cpu.reshape(loss, tuple(target.shape)) if reduction == "none" else loss), *rest

    cpu.nllloss, cpu.nllloss_2d = nllloss, nllloss_2d


@patch(
    module="mindtorch._tensor",
    bridges="tensors that are written to in a forward: what was written over keeps its gradient; Tensor.argsort, whose "
    "order never falls; and %, which has the sign of what is divided",
    obsolete_when="mindtorch's Tensor.__setitem__ is differentiated on CPU, and its argsort hands descending on, and "
    "its % is remainder",
)
def methods_of_tensors(_tensor):
    import numpy as np
    from mindspore.common.api import _pynative_executor

    stock = _tensor.TensorPlaceHolder.__setitem__

    def plain(index):
        if isinstance(index, tuple):
            return tuple(map(plain, index))
        return index.numpy() if isinstance(index, _tensor.Tensor) else index

    def __setitem__(self, index, value):
        ops = _tensor.ops
        if not (self.device.type == "cpu" and self.dtype.is_floating_point and _pynative_executor.grad_flag()):
            return stock(self, index, value)
        is_written, written = np.zeros(tuple(self.shape), bool), ops.zeros_like(self)
        is_written[plain(index)] = True
        stock(written, index, value)
        return self.copy_(ops.where(_tensor.tensor(is_written), written, self))

    def argsort(self, dim=-1, descending=False, stable=False):
        return _tensor.ops.argsort(self, dim, descending, stable)

    def __mod__(self, other):
        return _tensor.ops.remainder(self, other)

    for method in (__setitem__, argsort, __mod__):
        setattr(_tensor.TensorPlaceHolder, method.__name__, method)


@patch(
    module="mindtorch.nn.functional",
    bridges="the gradient of binary_cross_entropy_with_logits divides by the elements of the first batch, if the loss "
    "makes the target",
    obsolete_when="MindSpore's gradient of the mean divides by the elements of its own call",
)
def mean_of_binary_cross_entropy(functional):
    functional.binary_cross_entropy_with_logits = of_elements(functional.binary_cross_entropy_with_logits)
