"""Install the plugin in this process, and uninstall it."""

import functools
import logging
import os
import sys
from pathlib import Path

import wrapt

from mindnlp_dp_plugin import collectives, compat
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.rank_process import become_rank, is_child_of_rank
from mindnlp_dp_plugin.job.variables import DEFERRED, JOB, JOINED
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.runtime import cpu_affinity, dynamic_cluster, leaving
from mindnlp_dp_plugin.runtime.executing import leave_in_order
from mindnlp_dp_plugin.trainers import mindspore
from mindnlp_dp_plugin.trainers.guard import Guard, Summed

if compat.has_mindnlp05():
    from mindnlp_dp_plugin.trainers import transformers
else:
    from mindnlp_dp_plugin.trainers import loop, mindnlp

STOCK_SWITCH = "MULTI_NPU"
COMMAND = ("mindnlp-dp", "mindnlp_dp_plugin.cli")
WITH_PREPARE = Message("Write `model, optimizer, rows = dp.prepare(model, optimizer, rows)`.")
WITH_TRAINER = Message("Train with transformers.Trainer.")
CPU_EXTRA = ("numba", "threadpoolctl")

logger = logging.getLogger(__name__)

_patches = Patches()
_installation = None  # one object from install() to uninstall(): hooks scheduled for another do nothing


def is_installed_by_import() -> bool:
    """Whether importing the package installs it: not in the command line, nor in a rank that is not pinned yet."""
    program = next(iter(sys.argv), "")
    if program == "-m":  # Python has yet to find the module
        program = sys.orig_argv[-len(sys.argv)]
    return Path(program).name not in COMMAND and DEFERRED not in os.environ


def install(config: DataParallelConfig | None = None) -> None:
    """Join the other ranks and override MindNLP's Trainer, now or when it is imported. All ranks must call it.

    Importing ``mindnlp_dp_plugin`` calls it once; call it again to change the configuration. On Ascend, call it before
    the first tensor exists. In a child process of a rank it installs as for a single process.

    Args:
        config: The settings; None for those of the environment.

    Raises:
        DataParallelError: If MindNLP is not supported, a setting is wrong, or the ranks cannot join.

    Examples:
        >>> dp.install(dp.DataParallelConfig(zero_stage=1))
        >>> trainer.train()
        >>> dp.install()  # back to the environment's settings
    """
    uninstall()
    config = DataParallelConfig.from_env() if config is None else config
    is_child = is_child_of_rank(JOINED)
    rank_info = RankInfo() if is_child else detect()
    is_tuned = cpu_affinity.is_wanted(config)
    group = _join(rank_info, config, is_tuned)
    # Left set, MindNLP would draw a seed per rank and shard every data set at import, before it can be split.
    _patches.remove_variable(STOCK_SWITCH)
    if group.world_size > 1:
        become_rank(has_joined=True)
    global _installation
    _installation = object()
    if group.world_size > 1 or not group.forms_cluster:
        _serve_loops(group, config)
    if is_tuned:
        _when_imported("mindspore", cpu_affinity.tune_mindspore)
    _serve_mindnlp(group, config)
    if config.cpu_operators:
        _route_operators(tells=rank_info.rank == 0 and not is_child)


def uninstall() -> None:
    """Restore MindNLP's Trainer.

    The patches for newer MindSpore stay, and so do the joined ranks and operators that are launched synchronously.

    Examples:
        >>> dp.uninstall()
    """
    global _installation
    _installation = None
    _patches.undo()


def _join(rank_info, config, is_tuned):
    """Join the other ranks, with MindNLP ready to be imported."""
    if rank_info.is_scheduler:
        _serve_as_scheduler()
    if rank_info.scheduler:
        dynamic_cluster.form(rank_info, config.timeout)  # first, or the scheduler would share this rank's cores
    is_started_by_others = rank_info.launcher != "none" and JOB not in os.environ  # mindnlp-dp run pins ranks itself
    if is_tuned and is_started_by_others:
        cpu_affinity.pin_as_launchers_do_not(rank_info)
    compat.check_mindnlp()
    compat.bridge()
    group = collectives.join(rank_info, config.backend, config.timeout)
    if is_started_by_others:
        _prepare_to_leave(group.forms_cluster)
    return group


def _serve_as_scheduler():
    """Run as the scheduler, as which msrun starts the script once more; it ends with the job."""
    from mindspore.communication import init

    init()
    sys.exit(0)


def _serve_mindnlp(group, config):
    if compat.has_mindnlp05():
        transformers.install(group, config, _when_imported, _patches)
        return
    loop.install(config, _when_imported, _patches)
    _when_imported(mindnlp.MODULE, lambda module: mindnlp.hook(module, group, config, _patches))


def _serve_loops(group, config):
    summed = Summed()
    mindspore.hook(group, summed, _when_imported, _patches, config.train_apart)
    if group.world_size > 1 and not config.train_apart:
        Guard(summed, WITH_TRAINER if compat.has_mindnlp05() else WITH_PREPARE).install(_when_imported, _patches)


@functools.cache
def _prepare_to_leave(in_cluster):
    if leaving.end_as_worker_of_ray():
        return
    leave_in_order()
    if in_cluster:
        leaving.leave_together()
    leaving.end_at_once_if_failed()  # registered last, so it comes first


def _route_operators(tells):
    def hook(_):
        from mindnlp_dp_plugin import cpu_operators

        try:
            cpu_operators.route(_patches, _when_imported)
        except ModuleNotFoundError as error:
            if error.name not in CPU_EXTRA:
                raise
            if tells:
                _tell_of_missing(error.name)

    _when_imported("mindnlp.core.nn", hook)


@functools.cache
def _tell_of_missing(name):
    logger.warning(
        tr(
            "{name} is not installed: on this CPU models compute with MindNLP's operators, which are slower. "
            "pip install 'mindnlp-dp-plugin[cpu]' brings faster ones.",
            name=name,
        )
    )


def _when_imported(name, hook):
    """Call ``hook`` with a module when it is imported, possibly now, unless ``uninstall`` is called before."""
    installation = _installation

    def if_still_installed(module):
        if _installation is installation:
            hook(module)

    wrapt.register_post_import_hook(if_still_installed, name)
