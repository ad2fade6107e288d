"""Operators that ``mindtorch`` has for other devices, or only for other arguments."""

from mindnlp_dp_plugin.compat.patch import patch

MODULE = "mindtorch._apis.cpu"


@patch(
    module=MODULE,
    bridges="clipping, and so every Trainer: on CPU the norm of a whole tensor asks for an axis",
    obsolete_when="mindtorch._apis.cpu.linalg_vector_norm takes dim=None",
)
def norm_of_a_whole_tensor(cpu):
    stock = cpu.linalg_vector_norm

    def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
        if dim is None:
            x, dim = cpu.reshape(x, (-1,)), 0
        return stock(x, ord, dim, keepdim, dtype)

    cpu.linalg_vector_norm = linalg_vector_norm


@patch(
    module=MODULE,
    bridges="Adam and AdamW: there is no addcdiv on CPU",
    obsolete_when="mindtorch._apis.cpu has addcdiv",
)
def addcdiv_on_cpu(cpu):
    def addcdiv(input, tensor1, tensor2, value=1.0):
        return cpu.add(input, cpu.mul(cpu.div(tensor1, tensor2), value))

    cpu.addcdiv = addcdiv


@patch(
    module=MODULE,
    bridges="group_by_length: on CPU argmax of a whole tensor asks for an axis",
    obsolete_when="mindtorch._apis.cpu.argmax takes axis=None",
)
def argmax_of_a_whole_tensor(cpu):
    stock = cpu.argmax

    def argmax(input, axis, keep_dims):
        if axis is None:
            input, axis, keep_dims = cpu.reshape(input, (-1,)), 0, False
        return stock(input, axis, keep_dims)

    cpu.argmax = argmax


@patch(
    module=MODULE,
    bridges="products with a vector, and of batches where one side has fewer: DeBERTa, Falcon, attention pooling",
    obsolete_when="mindtorch._apis.cpu.matmul broadcasts",
)
def products_that_broadcast(cpu):
    import numpy as np

    stock = cpu.matmul

    def matmul(self, other):
        if self.ndim > 1 and (other.ndim == 2 or self.shape[:-2] == other.shape[:-2] and other.ndim > 1):
            return stock(self, other)
        if self.ndim == 1:
            return cpu.squeeze(matmul(cpu.reshape(self, (1, -1)), other), -1 if other.ndim == 1 else -2)
        if other.ndim == 1:
            return cpu.squeeze(matmul(self, cpu.reshape(other, (-1, 1))), -1)
        batch = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        return stock(*(cpu.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (self, other)))

    cpu.matmul = matmul


@patch(
    module=MODULE,
    bridges="distillation and other losses: there is no kl_div on CPU, and l1_loss calls mean with other arguments",
    obsolete_when="mindtorch._apis.cpu has both",
)
def losses_on_cpu(cpu):
    def reduced(loss, reduction):
        return {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}[reduction]()

    def l1_loss(input, target, reduction="mean"):
        return reduced(cpu.abs(cpu.sub(input, target)), reduction)

    def kl_div(input, target, reduction, log_target):
        if log_target:
            return reduced(cpu.mul(cpu.exp(target), cpu.sub(target, input)), reduction)
        is_zero = cpu.eq(target, 0.0)
        logarithm = cpu.log(cpu.masked_fill(target, is_zero, 1.0))  # 0 log 0 is 0
        return reduced(cpu.mul(target, cpu.sub(logarithm, input)), reduction)

    cpu.l1_loss, cpu.kl_div = l1_loss, kl_div


@patch(
    module="mindtorch.cpu",
    bridges="accelerate on ranks: it asks which of the CPU's devices is in use",
    obsolete_when="mindtorch.cpu has device_count, set_device and current_device",
)
def cpu_is_a_device(cpu):
    cpu.device_count, cpu.set_device, cpu.current_device = (lambda: 1), (lambda device: None), (lambda: 0)


@patch(
    module="mindtorch.nn.functional",
    bridges="batch normalisation: running statistics are taken for weight and bias, so all that comes out is 1",
    obsolete_when="mindtorch.nn.functional.batch_norm hands its operator weight and bias first",
)
def weight_and_bias_of_batch_norm(functional):
    stock = functional.batch_norm

    def batch_norm(input, running_mean, running_var, weight=None, bias=None, *args, **kwargs):
        return stock(input, weight, bias, running_mean, running_var, *args, **kwargs)

    functional.batch_norm = batch_norm
