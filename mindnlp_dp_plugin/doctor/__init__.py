"""``mindnlp-dp doctor``: would two ranks train here? Each check is a small function that returns a ``Finding``.

Cheap checks come first and import neither MindSpore nor MindNLP, which may crash. Only if none of them failed are both
imported, in a child process, and only if that works do two ranks start and sum numbers over each engine.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.doctor import ascend, engines, hccl, leftovers, machine, packages, script, settings
from mindnlp_dp_plugin.doctor.finding import Finding, Level, warning
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, has_ascend
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.runtime.install import STOCK_SWITCH

__all__ = ["CHECKS", "ON_ASCEND", "Finding", "Level", "examine"]

# By name; the docstring of each is its line of help.
CHECKS = {
    Message("python"): packages.python,
    Message("packages"): packages.versions,
    Message("mindformers"): packages.mindformers,
    Message("mpi"): packages.mpi,
    Message("CPU operators"): packages.cpu_operators,
    Message("settings"): settings.plugin_settings,
    STOCK_SWITCH: settings.multi_npu,
    Message("variables of a job"): settings.variables_of_a_job,
    Message("cores"): machine.cores,
    Message("memory"): machine.memory,
    Message("shared memory"): machine.shared_memory,
    Message("open files"): machine.open_files,
    Message("working directory"): machine.working_directory,
    Message("temporary folder"): machine.temporary_folder,
    Message("ports"): machine.ports,
    Message("stale processes"): leftovers.stale_ranks,
}
ON_ASCEND = {
    Message("devices"): ascend.devices,
    VISIBLE_DEVICES: ascend.visible_cards,
    Message("CANN"): ascend.cann,
    Message("driver"): ascend.driver,
    Message("HCCL"): hccl.settings,
    Message("HCCL ports"): hccl.ports,
    Message("rank table"): hccl.rank_table,
    Message("network"): hccl.network,
    Message("links"): ascend.links,
}
IMPORTS = Message("imports")


def examine(script_path: Path | None, announce: Callable[[str], None]) -> Iterator[tuple[str, Finding]]:
    """Run all checks, cheap ones first, and yield the name of each with what it found.

    Args:
        script_path: A training script to read, if any.
        announce: Called with the name of a slow check before it runs.
    """
    failed = False
    for name, check in _cheap_checks(script_path).items():
        finding = check()
        failed |= finding.level is Level.FAILURE
        yield name, finding
    for name, check in _slow_checks():
        if failed:
            yield name, warning("not tried, because a check it depends on failed", "fix the failures above")
            continue
        announce(f"{tr(name)} ...")
        finding = check()
        failed |= name == IMPORTS and finding.level is Level.FAILURE
        yield name, finding


def _cheap_checks(script_path):
    of_script = {} if script_path is None else {Message("script"): partial(script.read_script, script_path)}
    return CHECKS | (ON_ASCEND if has_ascend() else {}) | of_script


def _slow_checks():
    yield IMPORTS, packages.imports
    for backend in engines.to_try():
        yield ENGINES[backend].check, partial(engines.all_reduce, backend)
