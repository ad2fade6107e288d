"""What a loss needs that looks across the batch: the rows of all ranks, and means over all of them, with gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

import mindspore
import numpy as np
from mindspore.common._grad_function import _Function

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.distributed.gather import to_numpy
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message

PURPOSE = Message("dp.all_gather")


class WhatIsComputed:
    """What the loops of the plugin tell about the batch that this rank computes.

    Attributes:
        is_whole: Whether it is all rows of its batch, as in the Trainer's evaluation: no other rank's belong to it.
        is_repeated: Whether another rank computes it, too, so that other ranks get none of its rows.
        refusal: Why rows cannot be gathered now, in a sentence; None if they can.
    """

    def __init__(self):
        self.is_whole, self.is_repeated, self.refusal = False, False, None

    @contextmanager
    def being(self, **changes) -> Iterator[None]:
        """A context in which attributes have other values."""
        before = dict(vars(self))
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).update(before)


computed = WhatIsComputed()


def all_gather(tensor: mindspore.Tensor) -> mindspore.Tensor:
    """The rows of all ranks, in the order of ranks, with gradients that flow back. All ranks must call it.

    For a loss that compares each row with those of the whole batch: contrastive losses, in-batch negatives. Compute it
    from gathered rows alone, on every rank, and it is that of one process, with its gradients. As torch's
    ``torch.distributed.nn.functional.all_gather``, joined; ranks may have different numbers of rows. In one process,
    and where a rank scores a whole batch (the Trainer's evaluation), it returns the tensor.

    Args:
        tensor: This rank's rows, of shape (rows, ...); all but the first dimension the same on all ranks.

    Returns:
        A tensor of shape (rows of all ranks, ...).

    Raises:
        DataParallelError: If the tensor has no rows, ranks have rows of different shapes, or a setting weighs or orders
            losses so that gradients would not add up.

    Examples:
        >>> questions, answers = dp.all_gather(questions), dp.all_gather(answers)
        >>> scores = ops.matmul(questions, answers.swapaxes(0, 1))  # each row against those of all ranks
    """
    group = collectives.current()
    if not getattr(tensor, "ndim", 0):
        raise DataParallelError(
            "dp.all_gather gathers rows, but {value!r} has none: give a tensor of one dimension or more.", value=tensor
        )
    if group.world_size == 1 or computed.is_whole:
        return tensor
    if computed.refusal:
        raise DataParallelError(computed.refusal)
    return _AllGather.apply(tensor)


def global_mean(total: mindspore.Tensor, count: mindspore.Tensor | float) -> mindspore.Tensor:
    """A sum over all ranks, divided by the sum of its weights: a mean over the whole batch. All ranks must call it.

    For a loss that its own weights normalise, such as a cross entropy with class weights: ``total`` is the weighted sum
    of this rank's rows, ``count`` the sum of their weights. Gradients flow back through both.

    Args:
        total: A scalar.
        count: A scalar.

    Returns:
        A scalar, the same on all ranks; nan if all weights are 0.

    Examples:
        >>> total = nn.functional.cross_entropy(logits, labels, weight=weights, reduction="sum")
        >>> loss = dp.global_mean(total, weights[labels].sum())
    """
    return _sum(total) / _sum(count)


def _sum(value):
    value = value if isinstance(value, mindspore.Tensor) else mindspore.Tensor(value, mindspore.float32)
    return all_gather(value.reshape(1)).sum()


class _AllGather(_Function):
    @staticmethod
    def forward(ctx, tensor):
        group = collectives.current()
        own = to_numpy(tensor)[: 0 if computed.is_repeated else None]
        ctx.dtype, ctx.shape, ctx.num_rows = tensor.dtype, tuple(tensor.shape), len(own)
        parts = group.all_gather_object(own, PURPOSE)
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1:
            raise DataParallelError(
                "dp.all_gather: ranks have rows of the shapes {shapes}. Give rows of one shape: pad them alike.",
                shapes=", ".join(map(str, sorted(shapes))),
            )
        ctx.begin = sum(map(len, parts[: group.rank]))
        return mindspore.Tensor(np.concatenate(parts), dtype=tensor.dtype)

    @staticmethod
    def backward(ctx, gradient):
        group = collectives.current()
        buffer = to_numpy(gradient).astype(np.float32).reshape(-1)
        if not group.uses_numpy:
            buffer = mindspore.Tensor(buffer)
        group.all_reduce(buffer).wait()
        of_all = np.asarray(buffer if group.uses_numpy else buffer.asnumpy()).reshape(gradient.shape)
        own = np.zeros(ctx.shape, np.float32)
        own[: ctx.num_rows] = of_all[ctx.begin : ctx.begin + ctx.num_rows]
        return mindspore.Tensor(own, dtype=ctx.dtype)
