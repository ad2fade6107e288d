"""Tensors that need another order in memory: MindSpore copies one number at a time, 5 times as slow as NumPy."""

import mindspore

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, copied_in_order, order_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def view(stock, self, *shape):
    """``self.view(*shape)`` and ``self.reshape(*shape)``, also of a tensor that has to be copied for it."""
    return stock(_InOrder.of(self) if _has_to_be_copied(self, shape) else self, *shape)


def contiguous(stock, self):
    """``self.contiguous()``"""
    return _InOrder.of(self) if are_float32(self) and not self.is_contiguous() else stock(self)


def add_in_place(stock, self, other):
    """``self += other``, in place or not as MindSpore has it."""
    is_usual = isinstance(other, mindspore.Tensor) and other.shape == self.shape
    return stock(self, contiguous(_unchanged, other) if is_usual else other)


def _unchanged(tensor):
    return tensor


def _has_to_be_copied(tensor, shape):
    if not are_float32(tensor) or tensor.is_contiguous():
        return False
    array = array_of(tensor).view()
    try:
        array.shape = shape[0] if len(shape) == 1 else shape  # NumPy never copies for this
    except AttributeError:
        return True
    except (TypeError, ValueError):  # MindSpore says what is wrong
        pass
    return False


class _InOrder(Operator):
    def compute(self, input):
        array = array_of(input)
        self.order = order_of(array)
        return tensor_of(array.copy("C"))

    def gradients(self, gradient):
        if self.is_differentiated_again() or self.order == sorted(self.order):
            return (gradient,)
        # In the layout of what it belongs to, so that what transposed it finds it in order.
        return (tensor_of(copied_in_order(array_of(gradient), self.order)),)
