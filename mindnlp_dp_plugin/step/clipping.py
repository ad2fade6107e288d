"""Clip gradients by the norm of the buckets, instead of parameter by parameter."""

import functools
from types import ModuleType

import mindspore

from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches


def clip_by_buckets(reducer: GradientReducer, utils: ModuleType, patches: Patches) -> None:
    """Let the loop's ``clip_grad_norm_`` take two passes over memory, where stock takes three operators a parameter.

    Args:
        reducer: Averages the gradients; others are clipped as before.
        utils: Has the ``clip_grad_norm_`` that the loop calls.
        patches: Restores stock's.
    """
    stock = utils.clip_grad_norm_

    @functools.wraps(stock)
    def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
        parameters = [parameters] if isinstance(parameters, mindspore.Tensor) else list(parameters)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if norm_type == 2 and not error_if_nonfinite and reducer.averaged.are(gradients):
            return reducer.averaged.clip_grad_norm(max_norm)
        if reducer.keeps_part:
            raise DataParallelError(
                "zero_stage=2 or 3, clip_grad_norm_(norm_type={norm_type}, error_if_nonfinite={error_if_nonfinite}): "
                "sharded gradients are clipped once a step, all together and by the Euclidean norm. Use zero_stage=1.",
                norm_type=norm_type,
                error_if_nonfinite=error_if_nonfinite,
            )
        return stock(parameters, max_norm, norm_type, error_if_nonfinite, foreach)

    patches.replace(utils, "clip_grad_norm_", clip_grad_norm_)
