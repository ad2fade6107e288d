"""Cross entropy of classes, in one pass over the logits."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, blocks_of, rows_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable


def cross_entropy(stock, input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The mean over the rows that count, each with one class; NaN if none counts."""
    is_plain = weight is None and reduction == "mean" and not label_smoothing and are_float32(input)
    if not is_plain or (input.ndim, target.ndim) != (2, 1) or target.is_floating_point():
        return stock(input, target, weight, ignore_index, reduction, label_smoothing)
    return _CrossEntropy.of(input, target, ignore_index)


class _CrossEntropy(OnceDifferentiable):
    def compute(self, input, target, ignore_index):
        x, labels = rows_of(input), array_of(target)
        self.counts = labels != ignore_index
        self.labels = np.where(self.counts, labels, 0)[:, None]
        self.y, losses = np.empty_like(x), np.empty_like(x[:, 0])
        for block in blocks_of(x):
            below = x[block] - x[block].max(-1, keepdims=True)
            y = np.exp(below)
            total = y.sum(-1, keepdims=True)
            np.divide(y, total, out=self.y[block])
            losses[block] = (np.log(total) - np.take_along_axis(below, self.labels[block], -1))[:, 0]
        mean = np.float32(losses[self.counts].sum(dtype=np.float64) / self.counts.sum())
        return mindspore.Tensor(mean)

    def gradients(self, gradient):
        part = np.float32(gradient.asnumpy() / max(1, self.counts.sum()))
        of_row = np.where(self.counts, part, np.float32(0))[:, None]
        dx = np.empty_like(self.y)
        for block in blocks_of(dx):
            np.multiply(self.y[block], of_row[block], out=dx[block])
        dx[np.arange(len(dx)), self.labels[:, 0]] -= of_row[:, 0]
        return tensor_of(dx), None, None
