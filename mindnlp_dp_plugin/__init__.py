"""Data-parallel training for MindNLP's Trainer. Importing this package arms it.

Either start an unmodified script with ``mindnlp-dp run --nproc 2 script.py``, or put ``import mindnlp_dp_plugin``
first in the script and start it with ``msrun`` or ``mpirun``. ``Trainer.train()`` then trains as one process with
N times the batch would. Started alone, the plugin changes nothing but what lets MindNLP run on a current MindSpore.
"""

from mindnlp_dp_plugin.arming import install, is_armed_by_import, uninstall
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.ranks import (
    all_gather_object,
    barrier,
    broadcast_object,
    get_local_rank,
    get_rank,
    get_world_size,
    is_main_process,
    main_process_first,
    print_rank_0,
)
from mindnlp_dp_plugin.replicas import check_replicas
from mindnlp_dp_plugin.version import __version__

__all__ = [
    "DataParallelConfig",
    "DataParallelError",
    "DistributedSampler",
    "__version__",
    "all_gather_object",
    "barrier",
    "broadcast_object",
    "check_replicas",
    "gather_for_metrics",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "install",
    "is_main_process",
    "main_process_first",
    "print_rank_0",
    "shard",
    "uninstall",
]


def __getattr__(name):
    """Names that need MindSpore come when asked for, so that the command line starts without it."""
    if name in ("DistributedSampler", "shard"):
        from mindnlp_dp_plugin import data

        return getattr(data, name)
    if name == "gather_for_metrics":
        from mindnlp_dp_plugin.gathering import gather_for_metrics

        return gather_for_metrics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if is_armed_by_import():
    install()
