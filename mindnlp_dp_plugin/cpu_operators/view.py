"""Tensors that need another order in memory: MindSpore copies one number at a time, 5 times as slow as NumPy."""

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, copied_in_order, order_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def view(stock, self, *shape):
    """``self.view(*shape)`` and ``self.reshape(*shape)``, also of a tensor that has to be copied for it."""
    return stock(_InOrder.of(self, True) if _has_to_be_copied(self, shape) else self, *shape)


def contiguous(stock, self):
    """``self.contiguous()``"""
    return _InOrder.of(self, True) if are_float32(self) and not self.is_contiguous() else stock(self)


def add_in_place(stock, self, other):
    """``self += other``, in place or not as MindSpore has it."""
    is_usual = are_float32(other) and other.shape == self.shape and not other.is_contiguous()
    return stock(self, _InOrder.of(other, False) if is_usual else other)


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
    """Its gradient gets the input's layout, so that what transposed it finds it in order.

    That is not wanted where many layers add the same tensor: MindSpore sums up gradients in order only.
    """

    def compute(self, input, lays_out_gradient):
        array = array_of(input)
        order = order_of(array)
        self.order = order if lays_out_gradient else sorted(order)
        return tensor_of(array.copy("C"))

    def gradients(self, gradient):
        if self.is_differentiated_again() or self.order == sorted(self.order):
            return gradient, None
        return tensor_of(copied_in_order(array_of(gradient), self.order)), None
