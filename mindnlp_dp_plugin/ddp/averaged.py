"""The gradients that a step has averaged: which they are, and their norm and scale, bucket by bucket."""

import itertools
import math
from collections.abc import Iterable, Sequence

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.bucket import is_on_cpu, scale_each
from mindnlp_dp_plugin.ddp.parts import Extent
from mindnlp_dp_plugin.language import Message


class AveragedGradients:
    """Those of one step, as its buckets are taken.

    Args:
        parameters: All whose gradients are averaged.
        collective: The ranks.
        keeps_part: Whether this rank keeps its part of them alone, and no ``.grad``.

    Attributes:
        kept: The runs of gradients that were kept, by the identity of their parameter.
    """

    def __init__(self, parameters: Sequence, collective: Collective, keeps_part: bool):
        self._parameters, self._collective, self._keeps_part = parameters, collective, keeps_part
        self.kept = {}
        self._buckets = []  # each with its gradients; empty once they are clipped
        self._norm = None  # of them, once unscale() has computed it
        self._by_parameter = {}

    def take(self, bucket, parameters: Sequence, gradients: Sequence) -> None:
        """Attach a bucket's gradients to its parameters."""
        self._buckets.append((bucket, gradients))
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = self._by_parameter[id(parameter)] = gradient

    def keep(self, bucket, parameters: Sequence, gradients: Sequence, extents: Sequence[Extent]) -> None:
        """Keep this rank's part of a bucket, one run of elements for each of the extents."""
        self._buckets.append((bucket, gradients))
        self.kept |= {id(parameters[own.index]): gradient for own, gradient in zip(extents, gradients)}
        self._by_parameter |= {id(parameter): None for parameter in parameters}

    def leave_out(self, parameters: Iterable) -> None:
        """Detach what was averaged for parameters that no rank has a gradient of: an optimizer leaves them alone."""
        for parameter in parameters:
            parameter.grad = self._by_parameter[id(parameter)] = None

    def has(self, parameter) -> bool:
        """Whether the gradient of this parameter was averaged."""
        return id(parameter) in self._by_parameter

    def replaced(self) -> list[mindspore.Tensor | None]:
        """Gradients that were attached since in place of the averaged ones."""
        return [p.grad for p in self._parameters if p.grad is not self._by_parameter.get(id(p))]

    def are(self, gradients: Sequence) -> bool:
        """Whether these are all of them, neither replaced nor clipped since."""
        if self._keeps_part:
            return bool(self._buckets) and not gradients
        averaged = {id(gradient) for gradient in self._by_parameter.values() if gradient is not None}
        return bool(self._buckets) and averaged == {id(gradient) for gradient in gradients}

    def unscale(self, scale: float) -> bool:
        """Divide them, and what replaced them, by the factor that the loss was multiplied by.

        Args:
            scale: The factor.

        Returns:
            Whether all gradients are finite: the same on all ranks, as their averages are.
        """
        replaced = [gradient for gradient in self.replaced() if gradient is not None]
        self._norm = self._norm_of_buckets() / scale
        norms = [self._norm, *(gradient.astype(mindspore.float32).norm() for gradient in replaced)]
        factor = mindspore.tensor(1 / scale, mindspore.float32)
        for bucket, gradients in self._buckets:
            bucket.scale(gradients, factor)
        scale_each(replaced, factor)
        return all(math.isfinite(norm.item()) for norm in norms)

    def clip_grad_norm(self, max_norm: float) -> mindspore.Tensor:
        """Scale them so that their Euclidean norm is at most ``max_norm``.

        The rule is that of torch's ``clip_grad_norm_``: the norm is that of all gradients as one vector. It is computed
        bucket by bucket instead of parameter by parameter.

        Returns:
            The norm before clipping.
        """
        norm = self._norm_of_buckets() if self._norm is None else self._norm
        factor = mindspore.ops.clamp(max_norm / (norm + 1e-6), max=1.0)
        for bucket, gradients in self._buckets:
            bucket.scale(gradients, factor)
        self._buckets = []
        return norm

    def _norm_of_buckets(self):
        squares = [square for bucket, _ in self._buckets for square in bucket.squares()]
        if is_on_cpu():
            if self._keeps_part:
                of_ranks = self._collective.all_gather_object(squares, Message("the norm of gradients"))
                squares = itertools.chain(*of_ranks)
            return mindspore.tensor(math.fsum(squares) ** 0.5)
        total = sum(squares, mindspore.ops.zeros(1, mindspore.float32))
        if self._keeps_part:
            self._collective.all_reduce(total).wait()
        return total[0] ** 0.5
