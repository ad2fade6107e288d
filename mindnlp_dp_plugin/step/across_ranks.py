"""Functions that look across a batch: in the loss of a step they look across that of all ranks.

A cross entropy with weights of classes divides by what these add up to, one that leaves out labels of its own by those
that it keeps, and one of rows, beside labels of words, by the rows: ranks weigh losses by none of these. Batch
normalisation needs statistics of all rows, and so does the balance of experts (Fedus et al., 2021).
"""

import math
import sys
from collections.abc import Callable
from inspect import signature
from types import ModuleType
from typing import Any, NamedTuple

import mindspore
import numpy as np

from mindnlp_dp_plugin.distributed.gather import PADDING
from mindnlp_dp_plugin.distributed.gradients import all_gather, global_mean
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches, replaced
from mindnlp_dp_plugin.recompute import is_recomputed
from mindnlp_dp_plugin.step.own_rows import OwnRows

LOSSES_OF_EXPERTS = {"load_balancing_loss_func", "router_z_loss_func"}


class InForward(NamedTuple):
    """The batch of which the loss of a step is computed.

    Attributes:
        counts: Whether it has a weight. A mean over nothing would be no number, nor would gradients be that other ranks
            need of this one's rows.
        columns: What the loop took from the rows: columns by name, as a rule.
        labels: Those by which ranks weigh losses, if each row has several.
        has_spans: Whether it is of question answering.
    """

    counts: bool
    columns: Any = None
    labels: np.ndarray | None = None
    has_spans: bool = False


def look_across_ranks(
    functional: ModuleType,
    model,
    own_rows: OwnRows | None,
    in_forward: Callable[[], InForward | None],
    patches: Patches,
) -> None:
    """Let ``cross_entropy``, ``nll_loss``, ``batch_norm`` and the losses of experts count what all ranks have.

    MindSpore's own losses do, too, and so do those that a module has imported by name.

    Args:
        functional: Has the first three.
        model: The losses of its experts are in the modules of its classes.
        own_rows: Looks at each cross entropy.
        in_forward: The batch whose loss is computed, on all ranks at once; None outside of a step's forward.
        patches: Restores them.
    """

    def mean(stock, *given, **named):
        if not (batch := in_forward()):
            return stock(*given, **named)
        bound = signature(stock).bind(*given, **named)
        bound.apply_defaults()
        input, target, weight, ignore_index, reduction, *smoothing = bound.args
        if reduction != "mean":
            return stock(*given, **named)
        if own_rows:
            own_rows.require_others(input, target, batch.columns)
        is_behind_tokens = batch.has_spans and ignore_index == input.shape[-1]
        leaves_out = ignore_index != PADDING and not is_behind_tokens
        are_shares = target.is_floating_point()
        if are_shares or not (weight is not None or leaves_out or _are_of_rows(target, batch.labels)):
            if batch.counts:
                return stock(*given, **named)
            num_kept = len(target) if are_shares else (target != ignore_index).sum().item()
            return stock(input, target, weight, ignore_index, "sum", *smoothing) / max(num_kept, 1)
        kept = target != ignore_index
        weights = kept.astype(mindspore.float32)
        if weight is not None:
            weights = weights * weight[mindspore.ops.select(kept, target, mindspore.ops.zeros_like(target))]
        return global_mean(stock(input, target, weight, ignore_index, "sum", *smoothing), weights.sum())

    def batch_norm(stock, input, running_mean, running_var, weight=None, bias=None, training=False, *rest):
        if not (training and in_forward()):
            return stock(input, running_mean, running_var, weight, bias, training, *rest)
        return normalised(input, running_mean, running_var, weight, bias, *rest)

    def group_norm(stock, *given, **named):
        with replaced(functional, "batch_norm", of_own_rows):  # by which both MindNLPs compute it: each row is one
            return stock(*given, **named)

    def of_experts(stock, *given, **named):
        return of_all_experts(stock, *given, **named) if in_forward() else stock(*given, **named)

    owners = (functional, mindspore.ops, mindspore.mint.nn.functional)
    patches.stand_in_everywhere([each for owner in owners for each in (owner.cross_entropy, owner.nll_loss)], mean)
    of_own_rows = functional.batch_norm
    patches.stand_in(functional, batch_norm)
    patches.stand_in_everywhere([functional.group_norm], group_norm)
    for owner in {type(each).__module__ for each in model.modules()} & sys.modules.keys():
        for name in LOSSES_OF_EXPERTS & vars(sys.modules[owner]).keys():
            patches.stand_in(sys.modules[owner], of_experts, name)


def _are_of_rows(target, labels):
    """Whether there is one for each row, beside several labels a row; words that were chosen may be as many."""
    if labels is None or target.shape != labels.shape[:1]:
        return False
    words = (each[each != PADDING] for each in (labels, labels[:, 1:]))
    return not any(np.array_equal(target.asnumpy(), chosen) for chosen in words)


def of_all_experts(stock, *given, **named):
    """A loss of experts: Switch's is a mean over rows, Mixtral's and NLLB's a product of means over words."""
    bound = signature(stock).bind(*given, **named)
    routed, *_ = bound.args
    if isinstance(routed, tuple):
        bound.arguments[next(iter(bound.arguments))] = tuple(map(all_gather, routed))
        if (mask := bound.arguments.get("attention_mask")) is not None:
            bound.arguments["attention_mask"] = all_gather(mask.reshape(-1))[None]  # a row: ranks pad to other lengths
        return stock(*bound.args, **bound.kwargs)
    if routed is None:
        return stock(*given, **named)
    if routed.ndim == 2:
        return stock(*map(all_gather, bound.args))
    return global_mean(stock(*given, **named) * len(routed), len(routed))


def require_normalised_once(model) -> None:
    """Raise if batch normalisation would be computed again in backward, when other ranks do something else."""
    for layer in filter(is_recomputed, model.modules()):
        if any("BatchNorm" in type(module).__name__ for module in layer.modules()):
            raise DataParallelError(
                "{layer} has batch normalisation, which counts the rows of all ranks, and computes again in backward: "
                "leave recompute and zero_stage=3 out.",
                layer=type(layer).__name__,
            )


def normalised(input, running_mean, running_var, weight, bias, momentum=0.1, eps=1e-05):
    """Batch normalisation by the mean and the variance of all ranks' rows; all ranks must call it."""
    values = input.astype(mindspore.float32)
    others = tuple(axis for axis in range(input.ndim) if axis != 1)
    of_channels = (1, -1, *[1] * (input.ndim - 2))
    number = mindspore.Tensor([math.prod(values.shape) // values.shape[1]], mindspore.float32)
    *_, count = sums = all_gather(mindspore.ops.cat([values.sum(others), number])[None]).sum(0)
    mean = sums[:-1] / count
    values = values - mean.reshape(of_channels)
    variance = all_gather((values * values).sum(others)[None]).sum(0) / count
    for running, new in (running_mean, mean), (running_var, variance * count / (count - 1)):
        if running is not None:
            new = mindspore.ops.stop_gradient(new).astype(running.dtype)
            mindspore.ops.assign(running, (1 - momentum) * running + momentum * new)
    values = values * mindspore.ops.rsqrt(variance + eps).reshape(of_channels)
    if weight is not None:
        values = values * weight.reshape(of_channels)
    return (values if bias is None else values + bias.reshape(of_channels)).astype(input.dtype)
