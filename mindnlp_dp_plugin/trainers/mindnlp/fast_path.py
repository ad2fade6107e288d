"""A faster path for what MindNLP's loop does on the host in every step, while a session lasts."""

import functools

import mindspore
from mindnlp.core import nn

from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Replacements


def install_fast_path(trainer, reducer: GradientReducer, replacements: Replacements) -> None:
    """Clip by the norm of buckets, and count the model's parameters once.

    Args:
        trainer: The Trainer that trains.
        reducer: Averages its gradients.
        replacements: Restores the Trainer.
    """
    replacements.replace(nn.utils, "clip_grad_norm_", _clipping(nn.utils.clip_grad_norm_, reducer))
    # To estimate floating point operations, MindNLP counts the parameters in each step by a walk over all modules.
    model = getattr(getattr(trainer.model, "floating_point_ops", None), "__self__", None)
    if hasattr(model, "num_parameters"):
        replacements.replace(model, "num_parameters", functools.cache(model.num_parameters))


def _clipping(stock, reducer):
    """Clip by buckets: two passes over memory, where stock takes three operators for each parameter."""

    @functools.wraps(stock)
    def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
        parameters = [parameters] if isinstance(parameters, mindspore.Tensor) else list(parameters)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if norm_type == 2 and not error_if_nonfinite and reducer.has_just_averaged(gradients):
            return reducer.clip_grad_norm(max_norm)
        if reducer.keeps_part:
            raise DataParallelError(
                "zero_stage=2 with clip_grad_norm_(norm_type={norm_type}, error_if_nonfinite={error_if_nonfinite}): "
                "gradients that are shared out are clipped once a step, all together and by the Euclidean norm. Take "
                "zero_stage=1.",
                norm_type=norm_type,
                error_if_nonfinite=error_if_nonfinite,
            )
        return stock(parameters, max_norm, norm_type, error_if_nonfinite, foreach)

    return clip_grad_norm_
