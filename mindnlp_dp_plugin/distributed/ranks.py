"""Questions a script may ask of its job, and what its ranks may do together, in the field's own words."""

from contextlib import contextmanager
from typing import Any

from mindnlp_dp_plugin import collectives


def get_rank() -> int:
    """This process's number in the job: 0 to ``get_world_size() - 1``."""
    return collectives.current().rank


def get_world_size() -> int:
    """How many processes train together; 1 if this one was started alone."""
    return collectives.current().world_size


def get_local_rank() -> int:
    """This process's number among those on the same host."""
    return collectives.current().local_rank


def is_main_process() -> bool:
    """Whether this is rank 0: the one that logs and saves."""
    return get_rank() == 0


def print_rank_0(*values: Any, **kwargs: Any) -> None:
    """``print``, on rank 0 only. May be called on any rank."""
    if is_main_process():
        print(*values, **kwargs)


def barrier() -> None:
    """Return when all ranks have come here. To be called on all ranks, or those that did wait for ever."""
    collectives.current().barrier()


def all_gather_object(value: Any) -> list:
    """Everybody's ``value`` in the order of ranks. To be called on all ranks, in the same order.

    Args:
        value: Anything that can be pickled.
    """
    return collectives.current().all_gather_object(value)


def broadcast_object(value: Any, src: int = 0) -> Any:
    """The ``value`` of rank ``src``, on every rank. To be called on all ranks, in the same order.

    Args:
        value: Anything that can be pickled; only that of rank ``src`` matters.
        src: The rank whose value all receive.
    """
    group = collectives.current()
    return group.all_gather_object(value if group.rank == src else None)[src]


@contextmanager
def main_process_first():
    """Rank 0 runs the block alone, then all others do: they find what it downloaded or cached.

    To be entered by all ranks. If the block raises on rank 0, the job ends with that error.
    """
    if not is_main_process():
        barrier()
    yield
    if is_main_process():
        barrier()
