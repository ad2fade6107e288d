"""Assign parameters to buckets."""

import math
from collections.abc import Sequence

from mindspore.common.dtype import type_size_in_bytes

MEGABYTE = 2**20


def plan_buckets(parameters: Sequence, order: Sequence[int], cap_mb: float) -> list[list[int]]:
    """Group ``parameters``, in ``order``, into buckets of one dtype each.

    The parameter that brings a bucket to the cap is its last, as in torch's DistributedDataParallel; with a cap of 0
    each parameter is a bucket. Buckets are listed in the order in which they fill.

    Args:
        parameters: Tensors; their ``dtype`` and ``shape`` are read.
        order: Indices into ``parameters``, each once, in the expected order of gradients.
        cap_mb: Size in MB (2**20 bytes) at which a bucket is full.

    Returns:
        Indices into ``parameters``, grouped: each index is in exactly one bucket.
    """
    full, filling = [], {}
    for index in order:
        parameter = parameters[index]
        bucket, size = filling.pop(parameter.dtype, ([], 0))
        bucket.append(index)
        size += math.prod(parameter.shape) * type_size_in_bytes(parameter.dtype)
        if size >= cap_mb * MEGABYTE:
            full.append(bucket)
        else:
            filling[parameter.dtype] = (bucket, size)
    return full + [bucket for bucket, _ in filling.values()]
