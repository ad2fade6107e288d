"""Gradients that a call leaves to others than the optimizer: they are averaged, too."""

from collections.abc import Iterator
from contextlib import contextmanager

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.step.precision import Precision


class NotStepped:
    """Parameters whose gradients are asked for, and which no optimizer steps: clipping counts what they are attached.

    Args:
        parameters: These, the same on all ranks.
        collective: The ranks to average over.
        config: The settings.
        precision: The scale of the loss.
    """

    def __init__(self, parameters: list, collective: Collective, config: DataParallelConfig, precision: Precision):
        self._parameters, self._precision = parameters, precision
        self._reducer = GradientReducer(parameters, collective, config.bucket_cap_mb, config.comm_dtype)

    @contextmanager
    def averaged(self, is_syncing: bool) -> Iterator[None]:
        """A context for a micro-step, behind which the attached gradients are averaged, or only have accumulated."""
        scale = self._precision.scale
        for parameter in self._parameters if scale != 1 else ():
            if parameter.grad is not None and self._reducer.averaged.has(parameter):
                parameter.grad = parameter.grad * scale  # as that which is added to it
        self._reducer.release()
        yield
        if is_syncing:
            self._reducer.finish()
            if scale != 1:
                self._reducer.averaged.unscale(scale)
