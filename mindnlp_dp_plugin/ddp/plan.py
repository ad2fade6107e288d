"""Which parameters share a bucket."""

from collections.abc import Sequence

MEGABYTE = 2**20


def plan_buckets(parameters: Sequence, order: Sequence[int], cap_mb: float) -> list[list[int]]:
    """Cut ``parameters``, taken in ``order``, into buckets of one dtype each.

    A bucket is closed by the parameter that brings it to the cap, as in torch's DistributedDataParallel; with a cap
    of 0 that is every parameter. Buckets are listed in the order in which they fill up.

    Args:
        parameters: Tensors; their ``dtype``, ``size`` and ``itemsize`` are read.
        order: Indices into ``parameters``, each once, in the order in which gradients are expected.
        cap_mb: Size in MB (2**20 bytes) from which a bucket is full.

    Returns:
        Indices into ``parameters``, grouped: each index is in exactly one bucket.
    """
    full, filling = [], {}
    for index in order:
        parameter = parameters[index]
        bucket, size = filling.pop(parameter.dtype, ([], 0))
        bucket.append(index)
        size += parameter.size * parameter.itemsize
        if size >= cap_mb * MEGABYTE:
            full.append(bucket)
        else:
            filling[parameter.dtype] = (bucket, size)
    return full + [bucket for bucket, _ in filling.values()]
