"""Views that need another order in memory: MindSpore copies one number at a time, 5 times as slow as NumPy."""

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def view(stock, self, *shape):
    """``self.view(*shape)``, also of a tensor that has to be copied for it."""
    return stock(_InOrder.of(self) if _has_to_be_copied(self, shape) else self, *shape)


def contiguous(stock, self):
    """``self.contiguous()``"""
    return _InOrder.of(self) if are_float32(self) and not self.is_contiguous() else stock(self)


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
        return tensor_of(array_of(input).copy("C"))

    def gradients(self, gradient):
        return (gradient,)
