"""Rows of a table by their places, as embeddings: in the gradient MindSpore adds them one by one."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, are_views, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def embedding(stock, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    """The rows; like MindNLP on CPU, it gives the row of ``padding_idx`` a gradient, too."""
    is_plain = max_norm is None and not scale_grad_by_freq and are_float32(weight) and weight.ndim == 2
    if is_plain and are_views() and isinstance(input, mindspore.Tensor) and input.size:
        places = array_of(input)
        if places.dtype.kind == "i" and places.min() >= 0 and places.max() < len(weight):
            return _Rows.of(weight, places)
    return stock(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


class _Rows(Operator):
    def compute(self, table, places):
        self.places, self.length = places.copy(), len(table)  # the caller may write to its own
        return tensor_of(np.take(array_of(table), places, axis=0))

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return _Table.of(gradient, self.places, self.length), None
        return _summed(gradient, self.places, self.length), None


class _Table(Operator):
    """The other way round: sums of the rows with the same place."""

    def compute(self, rows, places, length):
        self.places = places
        return _summed(rows, places, length)

    def gradients(self, gradient):
        return _Rows.of(gradient, self.places), None, None


def _summed(rows, places, length):
    places = places.reshape(-1)
    by_place = np.argsort(places, kind="stable")
    ordered = places[by_place]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    rows = np.ascontiguousarray(array_of(rows)).reshape(len(places), -1)
    table = np.zeros((length, rows.shape[1]), np.float32)
    table[ordered[begins]] = np.add.reduceat(rows[by_place], begins)
    return tensor_of(table)
