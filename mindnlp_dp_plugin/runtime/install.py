"""Arm the plugin in this process, and disarm it."""

import os
import sys
from pathlib import Path

import wrapt

from mindnlp_dp_plugin import collectives, compat
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.rank_info import Identity, detect
from mindnlp_dp_plugin.patching import Replacements

STOCK_SWITCH = "MULTI_NPU"

DEFERRED = "MINDNLP_DP_DEFERRED"  # set for the ranks of mindnlp-dp run, which pin themselves before they arm
JOINED = "MINDNLP_DP_JOINED"  # the process that joined the group; its children inherit its environment, not its rank
COMMAND = ("mindnlp-dp", "mindnlp_dp_plugin.cli")

_replacements = Replacements()
_armed_as = None  # one object from install() to uninstall(): hooks scheduled for another do nothing


def is_armed_by_import() -> bool:
    """Whether importing the package arms this process: not the command line, nor a rank that has yet to be pinned."""
    is_command = any(Path(word).name in COMMAND for word in sys.orig_argv[1:3])
    return not (is_command or DEFERRED in os.environ)


def install(config: DataParallelConfig | None = None) -> None:
    """Join the other ranks and hook MindNLP's Trainer, now or when it is imported. To be called on all ranks.

    A child process of a rank, which inherits its environment, is alone.

    Importing ``mindnlp_dp_plugin`` calls it once; call it again to train by another configuration. On Ascend it must
    come before the first tensor.

    Args:
        config: How to train; what the environment asks for if None.

    Raises:
        DataParallelError: If MindNLP is not supported, a setting is wrong, or the ranks cannot be joined.
    """
    uninstall()
    config = DataParallelConfig.from_env() if config is None else config
    is_child_of_rank = os.environ.get(JOINED, str(os.getpid())) != str(os.getpid())
    identity = Identity() if is_child_of_rank else detect()
    if identity.is_scheduler:
        _serve_as_scheduler()
    compat.check_mindnlp()
    compat.bridge()
    group = collectives.join(identity, config)
    # Left set, MindNLP would draw a seed per rank and shard every data set at import, before it can be split.
    _replacements.remove_variable(STOCK_SWITCH)
    if group.world_size > 1:
        os.environ[JOINED] = str(os.getpid())
        _let_mindspore_answer(group)
    global _armed_as
    _armed_as = object()
    _hook_trainer(group, config)
    if config.cpu_operators:
        _route_operators()


def uninstall() -> None:
    """Leave MindNLP's Trainer as it was found.

    What lets MindNLP run on this MindSpore stays, and so does the group of ranks.
    """
    global _armed_as
    _armed_as = None
    _replacements.undo()


def _serve_as_scheduler():
    """Msrun starts the script once more as the scheduler of its cluster; that process ends with the job."""
    from mindspore.communication import init

    init()
    sys.exit(0)


def _let_mindspore_answer(group):
    if group.on_host:
        from mindnlp_dp_plugin.runtime.mindspore_communication import answer_from_group

        answer_from_group(group, _replacements)


def _hook_trainer(group, config):
    def hook(trainer_base):
        if group.world_size > 1 or config.average_over != "ranks":
            from mindnlp_dp_plugin.trainer.install import hook_trainer

            hook_trainer(trainer_base, group, config, _replacements)
        else:
            from mindnlp_dp_plugin.trainer.grouping import hook_lone_trainer

            hook_lone_trainer(trainer_base, _replacements)

    _when_imported("mindnlp.engine.trainer.base", hook)


def _route_operators():
    def hook(_):
        from mindnlp_dp_plugin import cpu_operators

        cpu_operators.route(_replacements)

    _when_imported("mindnlp.core.nn", hook)


def _when_imported(name, hook):
    """Call ``hook`` with a module when it is imported, which may be now, unless ``uninstall`` came in between."""
    armed_as = _armed_as

    def if_still_armed(module):
        if _armed_as is armed_as:
            hook(module)

    wrapt.register_post_import_hook(if_still_armed, name)
