"""Whether installed packages fit together. Versions are read without importing anything."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from mindnlp_dp_plugin import compat
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.doctor.settings import wanted_backend
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.job.signals import name_of
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.mpi import find_mpirun

PLUGIN = "mindnlp-dp-plugin"
WHY = {
    "mindnlp": Message("before 0.4.1 nothing averages gradients, and from 0.6 on (mindtorch_v2) it does so itself"),
    "numpy": Message("pyctcdecode, which MindNLP pulls, holds it below 2"),
    "pyarrow": Message("later ones refuse numpy 1"),
    "datasets": Message("later ones need pyarrow 21"),
    "setuptools": Message("later ones drop pkg_resources, which MindNLP's dependencies import"),
    "mindspore": Message("those are the versions MindNLP is bridged to"),
    "transformers": Message("MindNLP 0.5 cannot import later ones"),
    "peft": Message("MindNLP 0.5 cannot import later ones"),
    "diffusers": Message("MindNLP 0.5 always imports it, and cannot import later ones"),
}
CPU_OPERATORS = Message("CPU operators")
IMPORTS = Message("imports")
IMPORT_LIMIT_S = 180
ANSWER = "device_target="  # MindSpore prints lines of its own around it
TRAINER = "mindnlp, transformers.trainer" if compat.has_mindnlp05() else "mindnlp.engine.trainer.base"
IMPORT = f"""
import mindnlp_dp_plugin, mindspore, {TRAINER}, evaluate
print("{ANSWER}" + mindspore.get_context("device_target"))
"""


def python() -> Finding:
    """Whether plugin and MindSpore support this Python."""
    running = platform.python_version()
    try:
        supported = SpecifierSet(metadata(PLUGIN)["Requires-Python"])
    except PackageNotFoundError:
        return warning(
            "python",
            tr("{running}; {plugin} itself is not installed", running=running, plugin=PLUGIN),
            f"pip install '{PLUGIN}[mpi]'",
        )
    if running not in supported:
        return failure(
            "python",
            tr("{running}, supported is {supported}", running=running, supported=supported),
            tr("make a virtual environment with another Python"),
        )
    return ok("python", running)


def versions() -> Finding:
    """Whether the packages the plugin needs are installed in compatible versions."""
    if installed(PLUGIN) is None:
        return warning(
            "packages",
            tr("not checked, because {plugin} is not installed", plugin=PLUGIN),
            f"pip install '{PLUGIN}[mpi]'",
        )
    needed = _joined([*_requirements(), *_requirements(compat.EXTRA)])
    misfits = _misfits(needed)
    if not misfits:
        return ok("packages", ", ".join(f"{each.name} {installed(each.name)}" for each in needed))
    found = "; ".join(_describe(requirement) for requirement in misfits)
    return failure("packages", found, "pip install " + " ".join(f"'{requirement}'" for requirement in misfits))


def installed(name: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _requirements(extra=""):
    """What the plugin itself needs, or what an extra adds."""
    lines = [Requirement(line) for line in requires(PLUGIN) or []]
    if not extra:
        return [line for line in lines if line.marker is None]
    return [line for line in lines if line.marker and line.marker.evaluate({"extra": extra})]


def _joined(requirements):
    """One requirement for each package, without its extra."""
    bounds = {}
    for requirement in requirements:
        bounds[requirement.name] = bounds.get(requirement.name, SpecifierSet()) & requirement.specifier
    return [Requirement(f"{name}{specifier}") for name, specifier in bounds.items()]


def _misfits(needed):
    return [requirement for requirement in needed if not _is_met(requirement)]


def _is_met(requirement) -> bool:
    try:
        return Version(installed(requirement.name) or "none") in SpecifierSet(
            str(requirement.specifier), prereleases=True
        )
    except InvalidVersion:  # not installed, or of a version that pip and MindNLP refuse as well
        return False


def _describe(requirement) -> str:
    found = installed(requirement.name)
    if found is None:
        return tr("{name} is not installed", name=requirement.name)
    reason = WHY.get(requirement.name)
    known = {"name": requirement.name, "found": found, "specifier": requirement.specifier}
    if reason:
        return tr("{name} {found} does not fit, {specifier} does ({reason})", reason=reason, **known)
    return tr("{name} {found} does not fit, {specifier} does", **known)


def mindformers() -> Finding:
    """MindNLP imports MindFormers when it is installed, and warns on every rank if a part it wants is missing."""
    found = installed("mindformers")
    if found is None:
        return ok("mindformers", tr("not installed, as it should be"))
    return warning(
        "mindformers",
        tr(
            "mindformers {found} is installed: MindNLP imports it at start, though the Trainer does not use it",
            found=found,
        ),
        tr("pip uninstall mindformers, or use separate virtual environments"),
    )


def mpi() -> Finding:
    """Whether MPI, the faster engine on CPU, is installed."""
    wanted = wanted_backend()
    if wanted != "mpi" and has_ascend():
        return ok("mpi", tr("not needed on Ascend"))
    try:
        backends.choose("mpi")
    except DataParallelError as error:
        if wanted == "mpi":
            return failure(
                "mpi",
                tr("MINDNLP_DP_BACKEND=mpi, but {error}", error=error),
                f"pip install '{PLUGIN}[mpi]'",
            )
        return warning(
            "mpi",
            tr("{error} Ranks meet over MCCL, several times slower.", error=error),
            f"pip install '{PLUGIN}[mpi]'",
        )
    return ok("mpi", f"mpi4py {installed('mpi4py')}, {find_mpirun()}")


def cpu_operators() -> Finding:
    """Whether the extra with faster operators for models on the CPU is installed."""
    if has_ascend():
        return ok(CPU_OPERATORS, tr("not needed on Ascend"))
    if compat.has_mindnlp05():
        return ok(CPU_OPERATORS, tr("of MindNLP 0.4 alone"))
    needed = _joined(_requirements("cpu")) if installed(PLUGIN) else []
    if misfits := _misfits(needed):
        found = "; ".join(_describe(requirement) for requirement in misfits)
        return warning(
            CPU_OPERATORS,
            tr("{found}: models compute with MindNLP's operators, which are slower", found=found),
            f"pip install '{PLUGIN}[cpu]'",
        )
    return ok(CPU_OPERATORS, ", ".join(f"{each.name} {installed(each.name)}" for each in needed))


def imports() -> Finding:
    """Whether MindSpore and MindNLP can be imported, tried in a child process, and MindSpore's device."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    child = [sys.executable, "-c", IMPORT]
    try:
        ended = subprocess.run(child, env=environ, capture_output=True, text=True, timeout=IMPORT_LIMIT_S)
    except subprocess.TimeoutExpired:
        found = tr("importing mindspore and MindNLP's Trainer takes longer than {seconds} s", seconds=IMPORT_LIMIT_S)
        return failure(
            IMPORTS,
            found,
            tr("find where it hangs: python -X importtime -c 'import mindspore, {module}'", module=TRAINER),
        )
    if ended.returncode:
        return failure(IMPORTS, _last_words(ended), tr("fix this error; a fresh virtual environment is often quickest"))
    device = ended.stdout.partition(ANSWER)[2].split()[0]
    if has_ascend() and device != "Ascend":
        way_out = tr("install the MindSpore wheel for Ascend, and source CANN's set_env.sh before starting")
        return warning(IMPORTS, tr("there are Ascend cards, but MindSpore runs on {device}", device=device), way_out)
    return ok(
        IMPORTS,
        tr("mindspore and MindNLP's Trainer import; MindSpore runs on {device}", device=device),
        device_target=device,
    )


def _last_words(ended) -> str:
    if ended.returncode < 0:
        return tr(
            "importing mindspore and MindNLP's Trainer: killed by {signal}",
            signal=name_of(-ended.returncode),
        )
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    return tr(
        "importing mindspore and MindNLP's Trainer: {error}",
        error=lines[-1] if lines else tr("exit status {status}", status=ended.returncode),
    )
