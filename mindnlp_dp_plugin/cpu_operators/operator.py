"""Make a NumPy function a MindSpore operator: with gradients, or an error where they would be wrong."""

import mindspore
import numpy as np
from mindspore.common._grad_function import _Function
from mindspore.common.api import _pynative_executor

from mindnlp_dp_plugin.errors import DataParallelError


class Operator(_Function):
    """Computes forward and backward in NumPy, without NumPy's warnings.

    A subclass defines ``compute``, which may keep on ``self`` what the gradients need, and ``gradients``.
    """

    @classmethod
    def of(cls, *inputs):
        """The result, which MindSpore can differentiate."""
        return cls.apply(None, *inputs)

    @staticmethod
    def forward(ctx, tie, *inputs):
        """Called by MindSpore."""
        ctx.tie = tie
        with np.errstate(all="ignore"):
            return ctx.compute(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        """Called by MindSpore."""
        with np.errstate(all="ignore"):
            return None, *ctx.gradients(gradient)

    def compute(self, *inputs):
        """The result as a tensor."""
        raise NotImplementedError

    def gradients(self, gradient) -> tuple:
        """A gradient per input; None for an input that is not a tensor or needs none."""
        raise NotImplementedError

    def needs_gradient(self, index: int) -> bool:
        """Whether the input with that number needs a gradient."""
        return self.needs_input_grad[1 + index]

    @staticmethod
    def is_differentiated_again() -> bool:
        """Whether MindSpore records this backward, so that it needs operators that can be differentiated."""
        return _pynative_executor.requires_grad()


class OnceDifferentiable(Operator):
    """Its gradient uses arrays kept by forward; differentiating that gradient is an error."""

    @classmethod
    def of(cls, *inputs):
        """The result, which MindSpore can differentiate once."""
        tensors = [value for value in inputs if isinstance(value, mindspore.Tensor)]
        return cls.apply(_Tie.apply(*tensors) if _pynative_executor.requires_grad() else None, *inputs)

    @staticmethod
    def backward(ctx, gradient):
        """Called by MindSpore."""
        nothing, *gradients = Operator.backward(ctx, gradient)
        if ctx.is_differentiated_again():
            gradients = [value if value is None else _Once.apply(value, gradient, ctx.tie) for value in gradients]
        return nothing, *gradients


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
    def forward(ctx, value, gradient, tie):
        return mindspore.Tensor.from_numpy(value.asnumpy())

    @staticmethod
    def backward(ctx, gradient):
        _refuse()


def _refuse():
    raise DataParallelError(
        "The script differentiates a gradient of softmax, GELU, LayerNorm or the cross entropy again, which the "
        "plugin's CPU operators cannot do. Set MINDNLP_DP_CPU_OPERATORS=0 to use MindNLP's own, slower ones."
    )
