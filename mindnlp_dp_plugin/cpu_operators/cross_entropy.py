"""Cross entropy of classes, in one pass over the logits, which are kept: no second array of their size."""

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
        self.save_for_backward(input)  # so that MindSpore raises if it is written to before backward
        self.x, labels = rows_of(input), array_of(target)
        self.counts = labels != ignore_index
        self.labels = np.arange(len(labels)), np.where(self.counts, labels, 0)
        self.largest, self.total = (np.empty_like(self.x[:, :1]) for _ in range(2))
        for block in blocks_of(self.x):
            np.max(self.x[block], -1, keepdims=True, out=self.largest[block])
            np.sum(np.exp(self.x[block] - self.largest[block]), -1, keepdims=True, out=self.total[block])
        losses = np.log(self.total[:, 0]) - (self.x[self.labels] - self.largest[:, 0])
        mean = np.float32(losses[self.counts].sum(dtype=np.float64) / self.counts.sum())
        return mindspore.Tensor(mean)

    def gradients(self, gradient):
        part = np.float32(gradient.asnumpy() / max(1, self.counts.sum()))
        of_row = np.where(self.counts, part, np.float32(0))[:, None]
        dx, factor = np.empty_like(self.x), of_row / self.total
        for block in blocks_of(dx):
            part = np.subtract(self.x[block], self.largest[block], out=dx[block])
            np.multiply(np.exp(part, out=part), factor[block], out=part)
        dx[self.labels] -= of_row[:, 0]
        return tensor_of(dx), None, None
