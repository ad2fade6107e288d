"""``mindnlp-dp doctor``: would two ranks train here? Each check is a small function that returns a ``Finding``.

Cheap checks come first and import neither MindSpore nor MindNLP, which may crash. Only if none of them failed are both
imported, in a child process, and only if that works do two ranks start and sum numbers over each engine.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.doctor import ascend, engines, machine, packages, script, settings
from mindnlp_dp_plugin.doctor.finding import Finding, Level, warning
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, has_ascend
from mindnlp_dp_plugin.language import Message, tr

__all__ = ["CHECKS", "ON_ASCEND", "Finding", "Level", "examine"]

# By name; the docstring of each is its line of help.
CHECKS = {
    Message("packages"): packages.versions,
    Message("mindformers"): packages.mindformers,
    Message("mpi"): packages.mpi,
    Message("CPU operators"): packages.cpu_operators,
    Message("settings"): settings.plugin_settings,
    Message("variables of a job"): settings.variables_of_a_job,
    Message("cores"): machine.cores,
    Message("memory"): machine.memory,
    Message("shared memory"): machine.shared_memory,
    Message("open files"): machine.open_files,
    Message("working directory"): machine.working_directory,
    Message("temporary folder"): machine.temporary_folder,
    Message("ports"): machine.ports,
    Message("stale processes"): settings.stale_ranks,
}
ON_ASCEND = {
    Message("devices"): ascend.devices,
    VISIBLE_DEVICES: ascend.visible_cards,
    Message("CANN"): ascend.cann,
    Message("network"): ascend.network,
    Message("links"): ascend.links,
}
IMPORTS = Message("imports")


def examine(script_path: Path | None, announce: Callable[[str], None]) -> Iterator[tuple[str, Finding]]:
    """Run all checks, cheap ones first, and yield the name of each with what it found.

    Args:
        script_path: A training script to read, if any.
        announce: Called with the name of a slow check before it runs.
    """
    of_script = {} if script_path is None else {Message("script"): partial(script.read_script, script_path)}
    failed = False
    for name, check in (CHECKS | (ON_ASCEND if has_ascend() else {}) | of_script).items():
        finding = check()
        failed |= finding.level is Level.FAILURE
        yield name, finding
    not_tried = warning("not tried, because a check it depends on failed", "fix the failures above")
    slow = {ENGINES[backend].check: partial(engines.all_reduce, backend) for backend in engines.to_try()}
    for name, check in ({IMPORTS: packages.imports} | slow).items():
        if not failed:
            announce(f"{tr(name)} ...")
        finding = not_tried if failed else check()
        failed |= name == IMPORTS and finding.level is Level.FAILURE
        yield name, finding
