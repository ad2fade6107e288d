"""Tensors that need another order in memory: MindSpore copies one number at a time, 5 times as slow as NumPy."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, copied_in_order, order_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator

WHOLE = "whole_and_place"  # an attribute of a tensor that is a part of another


def part(stock, self, place):
    """``self[place]``, which remembers what it is a part of, as the logits that a language model shifts."""
    result = stock(self, place)
    is_usual = isinstance(place, tuple) and all(map(_is_run, place)) and are_float32(self, result)
    if is_usual and not result.is_contiguous():  # what is in order may be a copy, and would keep the whole in memory
        setattr(result, WHOLE, (self, place))
    return result


def _is_run(place):
    return place is Ellipsis or isinstance(place, slice) and place.step in (None, 1)


def view(stock, self, *shape):
    """``self.view(*shape)`` and ``self.reshape(*shape)``, also of a tensor that has to be copied for it."""
    return stock(_in_order(self) if _has_to_be_copied(self, shape) else self, *shape)


def contiguous(stock, self):
    """``self.contiguous()``"""
    return _in_order(self) if are_float32(self) and not self.is_contiguous() else stock(self)


def _in_order(tensor):
    return _Part.of(*getattr(tensor, WHOLE)) if hasattr(tensor, WHOLE) else _InOrder.of(tensor, True)


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


class _Part(Operator):
    """A copy of a part, whose gradient goes straight to the whole: MindSpore would put it into zeros in three steps."""

    def compute(self, whole, place):
        self.shape = whole.shape
        self.places = _places(place, whole.shape)
        return tensor_of(array_of(whole)[self.places].copy("C"))

    def gradients(self, gradient):
        if self.is_differentiated_again():
            around = [(part.start, length - part.stop) for part, length in zip(self.places, self.shape)]
            return mindspore.ops.pad(gradient, [number for pair in around[::-1] for number in pair]), None
        whole = np.empty(self.shape, np.float32)
        whole[self.places] = array_of(gradient)
        for axis, part in enumerate(self.places):
            whole[(*self.places[:axis], slice(part.start))] = 0
            whole[(*self.places[:axis], slice(part.stop, None))] = 0
        return tensor_of(whole), None


def _places(place, shape):
    """A slice for each axis, with its begin and its end."""
    at = place.index(Ellipsis) if Ellipsis in place else len(place)
    rest = (slice(None),) * (len(shape) - sum(part is not Ellipsis for part in place))
    parts = (*place[:at], *rest, *place[at + 1 :])
    return tuple(slice(*part.indices(length)[:2]) for part, length in zip(parts, shape))
