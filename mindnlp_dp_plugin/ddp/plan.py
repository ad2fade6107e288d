"""Assign parameters to buckets."""

import math
from collections.abc import Sequence

from mindspore.common.dtype import type_size_in_bytes

MEGABYTE = 2**20


def plan_buckets(parameters: Sequence, cap_mb: float) -> list[list]:
    """Group ``parameters`` into buckets of one dtype each.

    The parameter that brings a bucket to the cap is its last, as in torch's DistributedDataParallel; with a cap of 0
    each parameter is a bucket. Buckets are listed in the order in which they fill.

    Args:
        parameters: Tensors in the expected order of gradients; their ``dtype`` and ``shape`` are read.
        cap_mb: Size in MB (2**20 bytes) at which a bucket is full.

    Returns:
        The parameters, grouped: each is in exactly one bucket.
    """
    full, filling = [], {}
    for parameter in parameters:
        bucket, size = filling.pop(parameter.dtype, ([], 0))
        bucket.append(parameter)
        size += math.prod(parameter.shape) * type_size_in_bytes(parameter.dtype)
        if size >= cap_mb * MEGABYTE:
            full.append(bucket)
        else:
            filling[parameter.dtype] = (bucket, size)
    return full + [bucket for bucket, _ in filling.values()]
