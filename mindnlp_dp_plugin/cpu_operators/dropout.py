"""Dropout: MindSpore draws a number of 32 bits for each element, ten times as slow as 16 bits here."""

import importlib

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, rows_of, tensor_like
from mindnlp_dp_plugin.cpu_operators.attention import Kept
from mindnlp_dp_plugin.cpu_operators.compiled import ZERO, compiled
from mindnlp_dp_plugin.cpu_operators.operator import Operator
from mindnlp_dp_plugin.cpu_operators.scores import Scores
from mindnlp_dp_plugin.cpu_operators.threads import over_rows

# Not reached as an attribute: mindspore.common.seed is a function, too.
operator_seed = importlib.import_module("mindspore.common.seed")

LEVELS = 2**16
AT_A_TIME = 2**18  # draws


def dropout(stock, input, p=0.5, training=True):
    """Zeros with probability ``p``, to the next 2^-16, and the rest scaled (Srivastava et al., JMLR 15, 2014).

    Seeded as MindSpore's.
    """
    num_dropped = round(p * LEVELS)
    if type(input) is Scores:
        if not training or num_dropped == 0:
            return input
        if not input.may_be_dropped or num_dropped >= LEVELS:
            return stock(input.tensor, p, training)
        return input.left(Kept(_packed_draws(input.size, num_dropped), np.float32(LEVELS / (LEVELS - num_dropped))))
    if not (training and are_float32(input) and 0 < num_dropped < LEVELS):
        return stock(input, p, training)
    return _Kept.of(input, _draws(input.size, _stream()) >= num_dropped, np.float32(LEVELS / (LEVELS - num_dropped)))


def _stream():
    seeds = operator_seed._get_graph_seed(0, "dropout")
    return np.random.SFC64(seeds if any(seeds) else None)  # MindSpore has no seed: another stream each time


def _draws(size, bits):
    return bits.random_raw(-(-size // 4)).view(np.uint16)[:size]


def _packed_draws(size, num_dropped):
    """The same draws, a bit for each element: whether it is kept."""
    bits, packed = _stream(), np.empty(-(-size // 8), np.uint8)
    for begin in range(0, size, AT_A_TIME):
        end = min(begin + AT_A_TIME, size)
        packed[begin // 8 : -(-end // 8)] = np.packbits(_draws(end - begin, bits) >= num_dropped)
    return packed


class _Kept(Operator):
    def compute(self, input, is_kept, scale):
        self.is_kept, self.scale = is_kept, scale
        return self.scaled(input)

    def scaled(self, tensor):
        """What is kept of a tensor, scaled."""
        x = rows_of(tensor).reshape(-1)
        result = np.empty_like(x)
        over_rows(lambda part: _scale(x[part], self.is_kept[part], self.scale, result[part]), x)
        return tensor_like(result, tensor)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return _Kept.of(gradient, self.is_kept, self.scale), None, None
        return self.scaled(gradient), None, None


@compiled
def _scale(x, is_kept, scale, result):
    for i in range(x.size):
        result[i] = x[i] * (scale if is_kept[i] else ZERO)
