"""Whether installed packages fit together. Versions are read without importing anything."""

import os
import platform
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from mindnlp_dp_plugin import trainer
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.doctor.settings import wanted_backend
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.launch import backends

PLUGIN = "mindnlp-dp-plugin"
WHY = {
    "mindnlp": "0.5 has another Trainer, a patched Hugging Face one; 0.4.0 has no method for averaging gradients",
    "numpy": "pyctcdecode, which MindNLP pulls, holds it below 2",
    "pyarrow": "21 refuses numpy 1",
    "datasets": "later ones need pyarrow 21",
    "setuptools": "later ones drop pkg_resources, which MindNLP's dependencies import",
    "mindspore": "those are the versions MindNLP 0.4.1 is bridged to",
}
IMPORTS = "imports"
IMPORT_LIMIT_S = 180
ANSWER = "device_target="  # MindSpore prints lines of its own around it
IMPORT = f"""
import mindnlp_dp_plugin, mindspore, {trainer.MODULE}, evaluate
print("{ANSWER}" + mindspore.get_context("device_target"))
"""


def python() -> Finding:
    """Whether plugin and MindSpore support this Python."""
    running = platform.python_version()
    try:
        supported = SpecifierSet(metadata(PLUGIN)["Requires-Python"])
    except PackageNotFoundError:
        return warning("python", f"{running}; {PLUGIN} itself is not installed", f"pip install '{PLUGIN}[mpi]'")
    if running not in supported:
        return failure(
            "python", f"{running}, supported is {supported}", "make a virtual environment with another Python"
        )
    return ok("python", running)


def versions() -> Finding:
    """Whether the packages the plugin needs are installed in compatible versions."""
    try:
        needed = [Requirement(line) for line in requires(PLUGIN) or []]
    except PackageNotFoundError:
        return warning("packages", f"not checked, because {PLUGIN} is not installed", f"pip install '{PLUGIN}[mpi]'")
    needed = [requirement for requirement in needed if requirement.marker is None]
    misfits = [requirement for requirement in needed if not _is_met(requirement)]
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
        return f"{requirement.name} is not installed"
    reason = WHY.get(requirement.name)
    return f"{requirement.name} {found} does not fit, {requirement.specifier} does{f' ({reason})' if reason else ''}"


def mindformers() -> Finding:
    """MindNLP imports MindFormers when it is installed, and warns on every rank if a part it wants is missing."""
    found = installed("mindformers")
    if found is None:
        return ok("mindformers", "not installed, as it should be")
    return warning(
        "mindformers",
        f"mindformers {found} is installed: MindNLP imports it at start, though the Trainer does not use it",
        "pip uninstall mindformers, or use separate virtual environments",
    )


def mpi() -> Finding:
    """Whether MPI, the faster engine on CPU, is installed."""
    wanted = wanted_backend()
    if wanted != "mpi" and has_ascend():
        return ok("mpi", "not needed on Ascend")
    try:
        backends.choose("mpi", num_nodes=1)
    except DataParallelError as error:
        if wanted == "mpi":
            return failure("mpi", f"MINDNLP_DP_BACKEND=mpi, but {error}", f"pip install '{PLUGIN}[mpi]'")
        return warning("mpi", f"{error} Ranks meet over MCCL, several times slower.", f"pip install '{PLUGIN}[mpi]'")
    return ok("mpi", f"mpi4py {installed('mpi4py')}, {backends.find_mpirun()}")


def imports() -> Finding:
    """Whether MindSpore and MindNLP can be imported, tried in a child process, and MindSpore's device."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    child = [sys.executable, "-c", IMPORT]
    try:
        ended = subprocess.run(child, env=environ, capture_output=True, text=True, timeout=IMPORT_LIMIT_S)
    except subprocess.TimeoutExpired:
        found = f"importing mindspore and MindNLP's Trainer takes longer than {IMPORT_LIMIT_S} s"
        return failure(
            IMPORTS, found, f"find where it hangs: python -X importtime -c 'import mindspore, {trainer.MODULE}'"
        )
    if ended.returncode:
        return failure(IMPORTS, _last_words(ended), "fix this error; a fresh virtual environment is often quickest")
    device = ended.stdout.partition(ANSWER)[2].split()[0]
    if has_ascend() and device != "Ascend":
        hint = "install the MindSpore wheel for Ascend, and source CANN's set_env.sh before starting"
        return warning(IMPORTS, f"there are Ascend cards, but MindSpore runs on {device}", hint)
    return ok(IMPORTS, f"mindspore and MindNLP's Trainer import; MindSpore runs on {device}", device_target=device)


def _last_words(ended) -> str:
    if ended.returncode < 0:
        return f"importing mindspore and MindNLP's Trainer: killed by {signal.Signals(-ended.returncode).name}"
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    return f"importing mindspore and MindNLP's Trainer: {lines[-1] if lines else f'exit status {ended.returncode}'}"
