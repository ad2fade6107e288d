"""The same global batch on fewer nodes than a job was asked for, by more accumulation."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import WORLD_SIZES
from mindnlp_dp_plugin.patching import Patches


@contextmanager
def same_global_batch(arguments, world_size: int, micro_batches: int | None = None) -> Iterator[None]:
    """While entered, a step accumulates as much more as the job has fewer ranks than it was asked for.

    Args:
        arguments: The TrainingArguments.
        world_size: The ranks that train now.
        micro_batches: How many a step is to be of, if that is set.

    Raises:
        DataParallelError: If the global batch cannot be divided among all numbers of ranks that the job may come to.
    """
    sizes, accumulation = _world_sizes(), arguments.gradient_accumulation_steps
    in_a_step = micro_batches or (accumulation * sizes[-1] if sizes else accumulation * world_size)
    if micro_batches and in_a_step % world_size:
        raise DataParallelError(
            "elastic_determinism={in_a_step}: so many micro-batches cannot be divided among {world_size} ranks. Take "
            "one of {fitting} ranks.",
            in_a_step=in_a_step,
            world_size=world_size,
            fitting=", ".join(str(size) for size in range(1, in_a_step + 1) if in_a_step % size == 0),
        )
    if odd := [size for size in sizes if in_a_step % size]:
        raise DataParallelError(
            "gradient_accumulation_steps={accumulation}: the {in_a_step} batches of a step on {asked_for} ranks cannot "
            "be divided among {odd}, with which --nnodes MIN:MAX lets the job go on. Give a multiple of {fitting}, or "
            "another MIN.",
            accumulation=accumulation,
            in_a_step=in_a_step,
            asked_for=sizes[-1],
            odd=", ".join(map(str, odd)),
            fitting=math.lcm(*(size // math.gcd(size, sizes[-1]) for size in sizes)),
        )
    patches = Patches()
    patches.replace(arguments, "gradient_accumulation_steps", in_a_step // world_size)
    try:
        yield
    finally:
        patches.undo()


def planned_accumulation(accumulation: int, world_size: int) -> int:
    """The accumulation that the script asked for, which ``same_global_batch`` made into ``accumulation``."""
    sizes = _world_sizes()
    return accumulation * world_size // sizes[-1] if sizes else accumulation


def _world_sizes():
    return [int(size) for size in (told(WORLD_SIZES) or "").split(",") if size]
