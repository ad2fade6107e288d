"""Make a NumPy function a MindSpore operator: with gradients, or an error where they would be wrong."""

import mindspore
import numpy as np
from mindspore.common._grad_function import _Function
from mindspore.common.api import _pynative_executor

from mindnlp_dp_plugin.errors import DataParallelError


class Operator(_Function):
    """Computes forward and backward in NumPy, without NumPy's warnings; differentiating its gradient is an error.

    A subclass defines ``compute``, which may keep on ``self`` what the gradients need, and ``gradients``.

    Attributes:
        is_tied: Whether gradients depend on inputs by arrays alone. Those that do by ``saved_tensors`` need no tie.
    """

    is_tied = False

    @classmethod
    def of(cls, *inputs):
        """The result, which MindSpore can differentiate once."""
        tie = None
        if cls.is_tied and _pynative_executor.requires_grad():
            tie = _Tie.apply(*(value for value in inputs if isinstance(value, mindspore.Tensor)))
        return cls.apply(tie, *inputs)

    @staticmethod
    def forward(ctx, tie, *inputs):
        """Called by MindSpore."""
        ctx.tie = tie
        with np.errstate(all="ignore"):
            return ctx.compute(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        """Called by MindSpore."""
        depends_on = gradient, ctx.tie, *ctx.saved_tensors  # MindSpore raises if one was written to
        with np.errstate(all="ignore"):
            gradients = ctx.gradients(gradient)
        if _pynative_executor.requires_grad():  # it is recorded, to be differentiated again
            gradients = [value if value is None else _Once.apply(value, *depends_on) for value in gradients]
        return None, *gradients

    def compute(self, *inputs):
        """The result as a tensor."""
        raise NotImplementedError

    def gradients(self, gradient) -> tuple:
        """A gradient per input; None for an input that is not a tensor or needs none."""
        raise NotImplementedError

    def needs_gradient(self, index: int) -> bool:
        """Whether the input with that number needs a gradient."""
        return self.needs_input_grad[1 + index]


class _Tie(_Function):
    """Lets MindSpore see a dependence on the inputs without keeping their memory."""

    @staticmethod
    def forward(ctx, *inputs):
        return mindspore.Tensor(np.float32(0))

    @staticmethod
    def backward(ctx, gradient):
        _refuse()


class _Once(_Function):
    """Returns a gradient unchanged; differentiating it is an error."""

    @staticmethod
    def forward(ctx, value, *depends_on):
        return mindspore.Tensor.from_numpy(value.asnumpy())

    @staticmethod
    def backward(ctx, gradient):
        _refuse()


def _refuse():
    raise DataParallelError(
        "The script differentiates a gradient again, which the plugin's CPU operators cannot do. Set "
        "MINDNLP_DP_CPU_OPERATORS=0 to use MindNLP's own, slower ones."
    )
