"""What a rank keeps of a bucket if it steps a part of the elements alone: the rest of the gradients is let go."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.ddp.bucket import scale_each
from mindnlp_dp_plugin.ddp.parts import run_of

WIDE = (mindspore.float32, mindspore.float64)


class KeptRuns:
    """Runs of averaged gradients, which can be scaled, and the squares of all of them.

    Args:
        bucket: Its all-reduce is complete.
        gradients: Its averaged gradients.
        runs: For each of them, the first and the end of the elements to keep; None for none.

    Attributes:
        gradients: The runs, in memory of their own; None where nothing is kept.
    """

    def __init__(self, bucket, gradients: list, runs: list[tuple[int, int] | None]):
        self._squares = bucket.squares()
        self._is_on_host = mindspore.get_context("device_target") == "CPU"
        self.gradients = [self._copied(gradient, run) if run else None for gradient, run in zip(gradients, runs)]

    def squares(self) -> list:
        """Sums of squares of the whole bucket: the norm is that of all gradients, on every rank."""
        return self._squares

    def scale(self, gradients: list, factor) -> None:
        """Multiply the runs by a scalar tensor, in place."""
        for gradient in gradients:
            if gradient is None:
                continue
            if self._is_on_host and gradient.dtype in WIDE:
                values = gradient.asnumpy()
                np.multiply(values, values.dtype.type(factor.item()), out=values)
            else:
                scale_each([gradient], factor)

    def _copied(self, gradient, run):
        found = run_of(gradient, *run)
        return mindspore.Tensor.from_numpy(found.asnumpy().copy()) if self._is_on_host else found
