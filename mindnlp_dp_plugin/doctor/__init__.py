"""``mindnlp-dp doctor``: would two ranks train here? Each check is a small function that returns a ``Finding``.

Cheap checks come first and import neither MindSpore nor MindNLP, which may crash. Only if none of them failed are both
imported, in a child process, and only if that works do two ranks start and sum numbers over each engine.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from mindnlp_dp_plugin.doctor import ascend, engines, hccl, leftovers, machine, network, packages, script, settings
from mindnlp_dp_plugin.doctor.finding import Finding, Level, warning
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.language import tr

__all__ = ["Finding", "Level", "examine"]

CHEAP = [
    packages.python,
    packages.versions,
    packages.mindformers,
    packages.mpi,
    packages.cpu_operators,
    settings.plugin_settings,
    settings.multi_npu,
    settings.variables_of_a_job,
    machine.cores,
    machine.memory,
    machine.shared_memory,
    machine.open_files,
    machine.working_directory,
    machine.temporary_folder,
    network.ports,
    leftovers.stale_ranks,
]
ON_ASCEND = [
    ascend.devices,
    ascend.visible_cards,
    ascend.cann,
    ascend.driver,
    hccl.settings,
    hccl.rank_table,
    hccl.network,
    hccl.links,
]


def examine(script_path: Path | None, announce: Callable[[str], None]) -> Iterator[Finding]:
    """Run all checks, cheap ones first.

    Args:
        script_path: A training script to read, if any.
        announce: Called with the name of a slow check before it runs.
    """
    failed = False
    for check in _cheap_checks(script_path):
        finding = check()
        failed |= finding.level is Level.FAILURE
        yield finding
    for name, check in _slow_checks():
        if failed:
            yield warning(name, tr("not tried, because a check it depends on failed"), tr("fix the failures above"))
            continue
        announce(f"{tr(name)} ...")
        finding = check()
        failed |= name == packages.IMPORTS and finding.level is Level.FAILURE
        yield finding


def _cheap_checks(script_path):
    checks = CHEAP + (ON_ASCEND if has_ascend() else [])
    return checks if script_path is None else [*checks, lambda: script.read_script(script_path)]


def _slow_checks():
    yield packages.IMPORTS, packages.imports
    for backend in engines.to_try():
        yield engines.name_of(backend), lambda backend=backend: engines.all_reduce(backend)
