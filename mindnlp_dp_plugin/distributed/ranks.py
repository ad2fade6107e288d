"""What a script asks about its rank, and what ranks do together."""

from contextlib import contextmanager
from typing import Any

from mindnlp_dp_plugin import collectives


def get_rank() -> int:
    """This process's rank in the job: 0 to ``get_world_size() - 1``.

    Examples:
        >>> shard = files[dp.get_rank() :: dp.get_world_size()]
    """
    return collectives.current().rank


def get_world_size() -> int:
    """Number of ranks in the job; 1 in a single process.

    Examples:
        >>> rows_of_a_step = 8 * dp.get_world_size()
    """
    return collectives.current().world_size


def get_local_rank() -> int:
    """This process's rank among those on the same node.

    Examples:
        >>> cache = f"/tmp/cache_{dp.get_local_rank()}"
    """
    return collectives.current().local_rank


def is_main_process() -> bool:
    """Whether this is rank 0, which logs and saves.

    Examples:
        >>> if dp.is_main_process():
        ...     Path("scores.json").write_text(json.dumps(scores))
    """
    return get_rank() == 0


def print_rank_0(*values: Any, **kwargs: Any) -> None:
    """``print`` on rank 0 only. Any rank may call it.

    Examples:
        >>> dp.print_rank_0("printed once, not N times")
    """
    if is_main_process():
        print(*values, **kwargs)


def barrier() -> None:
    """Wait until all ranks have called it. All ranks must call it: a missing rank deadlocks the others.

    Examples:
        >>> if dp.is_main_process():
        ...     model.save_pretrained("best")
        >>> dp.barrier()  # then every rank may read the folder
    """
    collectives.current().barrier()


def all_gather_object(value: Any) -> list:
    """The ``value`` of every rank, in the order of ranks. All ranks must call it, in the same order.

    Args:
        value: Any object that can be pickled.

    Examples:
        >>> hosts = dp.all_gather_object(socket.gethostname())
    """
    return collectives.current().all_gather_object(value, "dp.all_gather_object")


def broadcast_object(value: Any, src: int = 0) -> Any:
    """The ``value`` of rank ``src``, on every rank. All ranks must call it, in the same order.

    Args:
        value: Any object that can be pickled; ignored on ranks other than ``src``.
        src: The rank whose value all ranks get.

    Examples:
        >>> chosen = dp.broadcast_object(choose() if dp.is_main_process() else None)
    """
    group = collectives.current()
    return group.all_gather_object(value if group.rank == src else None, "dp.broadcast_object")[src]


@contextmanager
def main_process_first():
    """Rank 0 runs the block first, then all others, which find the files it downloaded or cached.

    All ranks must enter it. If the block raises on rank 0, the job ends with that error.

    Examples:
        >>> with dp.main_process_first():
        ...     tokenizer = AutoTokenizer.from_pretrained("roberta-base")  # rank 0 downloads
    """
    if not is_main_process():
        barrier()
    yield
    if is_main_process():
        barrier()
