"""Cross entropy of classes, in one pass over the logits, which are kept: no second array of their size."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.compiled import ZERO, compiled, compiled_sums, exponential, largest_of_rows
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable
from mindnlp_dp_plugin.cpu_operators.threads import over_rows
from mindnlp_dp_plugin.errors import DataParallelError


def cross_entropy(stock, input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The mean over the rows that count, each with one class; NaN if none counts."""
    is_plain = weight is None and reduction == "mean" and not label_smoothing and are_float32(input)
    if not is_plain or (input.ndim, target.ndim) != (2, 1) or target.is_floating_point():
        return stock(input, target, weight, ignore_index, reduction, label_smoothing)
    return _CrossEntropy.of(input, target, ignore_index)


class _CrossEntropy(OnceDifferentiable):
    def compute(self, input, target, ignore_index):
        self.save_for_backward(input)  # so that MindSpore raises if it is written to before backward
        x, labels = rows_of(input), array_of(target)
        self.counts = labels != ignore_index
        self.labels = np.arange(len(labels)), np.where(self.counts, labels, 0)
        _require_labels_of(x.shape[1], self.labels[1])
        self.largest, self.total = largest_of_rows(x), np.empty_like(x[:, 0])
        over_rows(lambda rows: _add_up(x[rows], self.largest[rows], self.total[rows]), x)
        losses = np.log(self.total) - (x[self.labels] - self.largest)
        mean = np.float32(losses[self.counts].sum(dtype=np.float64) / self.counts.sum())
        return mindspore.Tensor(mean)

    def gradients(self, gradient):
        x = rows_of(*self.saved_tensors)
        part = np.float32(gradient.asnumpy() / max(1, self.counts.sum()))
        of_row = np.where(self.counts, part, np.float32(0))
        dx, factor = np.empty_like(x), of_row / self.total
        over_rows(lambda rows: _differentiate(x[rows], self.largest[rows], factor[rows], dx[rows]), dx)
        dx[self.labels] -= of_row
        return tensor_of(dx), None, None


def _require_labels_of(num_classes, labels):
    if labels.min() < 0 or labels.max() >= num_classes:
        raise DataParallelError(
            "Label {label} is not one of the model's {count} classes, 0 to {last}: correct the data, or set "
            "num_labels in the model's config (for a language model: vocab_size).",
            label=int(labels.min() if labels.min() < 0 else labels.max()),
            count=num_classes,
            last=num_classes - 1,
        )


@compiled_sums
def _add_up(x, largest, total):
    num_rows, length = x.shape
    for row in range(num_rows):
        of_row = ZERO
        for i in range(length):
            of_row += exponential(x[row, i] - largest[row])
        total[row] = of_row


@compiled
def _differentiate(x, largest, factor, dx):
    num_rows, length = x.shape
    for row in range(num_rows):
        for i in range(length):
            dx[row, i] = exponential(x[row, i] - largest[row]) * factor[row]
