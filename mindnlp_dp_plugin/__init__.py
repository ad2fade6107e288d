"""Data-parallel training for MindNLP's Trainer. Importing this package arms it.

Either start an unmodified script with ``mindnlp-dp run --nproc 2 script.py``, or put ``import mindnlp_dp_plugin``
first in the script and start it with ``msrun`` or ``mpirun``. ``Trainer.train()`` then trains as one process with
N times the batch would. In one process the plugin only patches MindNLP so that it runs on current MindSpore.
"""

from importlib import import_module

from mindnlp_dp_plugin import compat
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.distributed.logging import get_logger
from mindnlp_dp_plugin.distributed.ranks import (
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
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.runtime.install import install, is_installed_by_import, uninstall
from mindnlp_dp_plugin.version import __version__

__all__ = [
    "DataParallelConfig",
    "DataParallelError",
    "DistributedLengthGroupedSampler",
    "DistributedSampler",
    "DynamicPadding",
    "SwanLabCallback",
    "TensorBoardCallback",
    "WandbCallback",
    "__version__",
    "all_gather",
    "all_gather_object",
    "autocast",
    "barrier",
    "broadcast_object",
    "check_replicas",
    "gather_for_metrics",
    "gathered_parameters",
    "get_local_rank",
    "get_logger",
    "get_rank",
    "get_world_size",
    "global_mean",
    "install",
    "is_main_process",
    "load_state",
    "main_process_first",
    "no_sync",
    "notebook_launcher",
    "pack_dataset",
    "prepare",
    "print_rank_0",
    "save_state",
    "shard",
    "should_stop",
    "uninstall",
]


# Names that need MindSpore or NumPy, or that few use, come when asked for: the command line starts without them.
_HOMES = {
    "DistributedLengthGroupedSampler": "data",
    "DistributedSampler": "data",
    "DynamicPadding": "data",
    "SwanLabCallback": "trainers.observe.tracker",
    "TensorBoardCallback": "trainers.observe.tracker",
    "WandbCallback": "trainers.observe.tracker",
    "all_gather": "distributed.gradients",
    "autocast": "mixed_precision",
    "check_replicas": "ddp.replicas",
    "gather_for_metrics": "distributed.gather",
    "gathered_parameters": "fully_sharded",
    "global_mean": "distributed.gradients",
    "load_state": "trainers.loop.state",
    "no_sync": "trainers.loop.prepare",
    "notebook_launcher": "launch.notebook",
    "pack_dataset": "data",
    "prepare": "trainers.loop.prepare",
    "save_state": "trainers.loop.state",
    "shard": "data",
    "should_stop": "trainers.loop.prepare",
}
# They know MindNLP's own models or Trainer.
_OF_MINDNLP04 = {name for name, home in _HOMES.items() if home.startswith(("trainers", "mixed_precision"))}


def __getattr__(name):
    if name in _HOMES:
        if name in _OF_MINDNLP04:
            compat.require_mindnlp04(name)
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if is_installed_by_import():
    install()
