"""Numbers of each row by their places, as DeBERTa's relative positions: MindNLP first compares all places with 0."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.compiled import compiled
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable
from mindnlp_dp_plugin.cpu_operators.threads import over_rows


def gather(stock, input, dim, index):
    """Along the last axis, with places from 0 on."""
    is_usual = are_float32(input) and index.size and dim in (-1, input.ndim - 1)
    if not is_usual or input.shape[:-1] != index.shape[:-1]:
        return stock(input, dim, index)
    places = array_of(index)
    if places.min() < 0 or places.max() >= input.shape[-1]:
        return stock(input, dim, index)
    return _Gathered.of(input, places)


class _Gathered(OnceDifferentiable):
    def compute(self, input, places):
        rows, self.shape = rows_of(input), input.shape
        self.places = np.array(places, np.intp).reshape(len(rows), -1)  # a copy: the caller may write to its own
        result = np.empty(places.shape, np.float32)
        picked = result.reshape(self.places.shape)
        over_rows(lambda part: _pick(rows[part], self.places[part], picked[part]), picked)
        return tensor_of(result)

    def gradients(self, gradient):
        g, dx = array_of(gradient).reshape(self.places.shape), np.empty(self.shape, np.float32)
        rows = dx.reshape(len(g), -1)
        over_rows(lambda part: _put_back(g[part], self.places[part], rows[part]), g)
        return tensor_of(dx), None


@compiled
def _pick(rows, places, result):
    num_rows, num_places = places.shape
    for row in range(num_rows):
        for i in range(num_places):
            result[row, i] = rows[row, places[row, i]]


@compiled
def _put_back(g, places, rows):
    num_rows, length = rows.shape
    sums = np.empty(length, np.float64)
    for row in range(num_rows):
        sums[:] = 0
        for i in range(places.shape[1]):
            sums[places[row, i]] += g[row, i]
        for i in range(length):
            rows[row, i] = sums[i]
