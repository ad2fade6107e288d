"""Whether installed packages fit together. Versions are read without importing anything."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from mindnlp_dp_plugin import compat
from mindnlp_dp_plugin.doctor.ascend import MINDSPORE, trouble_in
from mindnlp_dp_plugin.doctor.finding import Finding, failure, last_words, ok, warning
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.job.variables import of_setting
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.mpi import find_mpirun

PLUGIN = "mindnlp-dp-plugin"
INSTALL = f"pip install '{PLUGIN}[mpi]'"
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
IMPORT_LIMIT_S = 180
ANSWER = "device_target="  # MindSpore prints lines of its own around it
TRAINER = "mindnlp, transformers.trainer" if compat.has_mindnlp05() else "mindnlp.engine.trainer.base"
IMPORT = [
    *(sys.executable, "-c"),
    f"import mindnlp_dp_plugin, mindspore, {TRAINER}, evaluate\n"
    f"print('{ANSWER}' + mindspore.get_context('device_target'))",
]
TOO_SLOW = Message("no end within {seconds} s; python -X importtime -c 'import mindspore, {module}' shows where")
FRESH = Message("fix this error; a fresh virtual environment is often quickest")
OF_ASCEND = Message("install the MindSpore wheel for Ascend, and source CANN's set_env.sh before starting")


def versions() -> Finding:
    """Whether Python and the packages that the plugin needs are there, in versions that fit together."""
    if installed(PLUGIN) is None:
        return warning("not checked, because {plugin} is not installed", INSTALL, plugin=PLUGIN)
    running, supported = platform.python_version(), SpecifierSet(metadata(PLUGIN)["Requires-Python"])
    if running not in supported:
        way_out = Message("make a virtual environment with another Python")
        return failure("Python {running}, supported is {supported}", way_out, running=running, supported=supported)
    bounds = bounds_of("", compat.EXTRA)
    if misfits := misfits_of(bounds):
        return failure("; ".join(misfits.values()), "pip install " + " ".join(f"'{each}'" for each in misfits))
    return ok("Python {running}, {packages}", running=running, packages=listed(bounds))


def installed(name: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def bounds_of(*extras: str) -> dict[str, SpecifierSet]:
    """The versions of each package that the plugin needs with some of its extras; ``""`` for what it always needs."""
    bounds = {}
    for requirement in map(Requirement, requires(PLUGIN) or []):
        marker = requirement.marker
        if "" in extras if marker is None else any(marker.evaluate({"extra": extra}) for extra in extras):
            bounds[requirement.name] = bounds.get(requirement.name, SpecifierSet()) & requirement.specifier
    return bounds


def listed(bounds: dict[str, SpecifierSet]) -> str:
    """Packages with their versions."""
    return ", ".join(f"{name} {installed(name)}" for name in bounds)


def misfits_of(bounds: dict[str, SpecifierSet]) -> dict[str, str]:
    """What is wrong with packages of other versions or not installed, by what pip is to install instead."""
    found = {}
    for name, specifier in bounds.items():
        known = {"name": name, "found": installed(name), "bounds": specifier, "reason": WHY.get(name)}
        with suppress(InvalidVersion):  # not installed, or of a version that pip and MindNLP refuse as well
            if specifier.contains(Version(known["found"] or "none"), prereleases=True):
                continue
        trouble = Message("{name} {found} does not fit, {bounds} does")
        if known["found"] is None:
            trouble = Message("{name} is not installed")
        elif known["reason"]:
            trouble = Message("{name} {found} does not fit, {bounds} does ({reason})")
        found[f"{name}{specifier}"] = tr(trouble, **known)
    return found


def mindformers() -> Finding:
    """MindNLP imports MindFormers when it is installed, and warns on every rank if a part it wants is missing."""
    found = installed("mindformers")
    if found is None:
        return ok("not installed, as it should be")
    return warning(
        "mindformers {found} is installed: MindNLP imports it at start, though the Trainer does not use it",
        "pip uninstall mindformers, or use separate virtual environments",
        found=found,
    )


def mpi() -> Finding:
    """Whether MPI, the faster engine on CPU, is installed."""
    is_wanted = os.environ.get(of_setting("backend")) == "mpi"
    if has_ascend() and not is_wanted:
        return ok("not needed on Ascend")
    try:
        backends.choose("mpi")
    except DataParallelError as error:
        if is_wanted:
            return failure("MINDNLP_DP_BACKEND=mpi, but {error}", INSTALL, error=error)
        return warning("{error} Ranks meet over MCCL, several times slower.", INSTALL, error=error)
    return ok("mpi4py {version}, {mpirun}", version=installed("mpi4py"), mpirun=find_mpirun())


def cpu_operators() -> Finding:
    """Whether the extra with faster operators for models on the CPU is installed."""
    if has_ascend():
        return ok("not needed on Ascend")
    if compat.has_mindnlp05():
        return ok("of MindNLP 0.4 alone")
    bounds = bounds_of("cpu") if installed(PLUGIN) else {}
    if misfits := misfits_of(bounds):
        found, way_out = "; ".join(misfits.values()), f"pip install '{PLUGIN}[cpu]'"
        return warning("{found}: models compute with MindNLP's operators, which are slower", way_out, found=found)
    return ok(listed(bounds))


def imports() -> Finding:
    """Whether MindSpore and MindNLP can be imported, where MindSpore then computes, and what it warns of."""
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES} | {"GLOG_v": "2"}
    try:
        ended = subprocess.run(IMPORT, env=environ, capture_output=True, text=True, timeout=IMPORT_LIMIT_S)
    except subprocess.TimeoutExpired:
        return failure(TOO_SLOW, FRESH, seconds=IMPORT_LIMIT_S, module=TRAINER)
    if ended.returncode:
        return failure("importing mindspore and MindNLP's Trainer: {error}", FRESH, error=last_words(ended))
    device = ended.stdout.partition(ANSWER)[2].split()[0]
    if has_ascend() and device != "Ascend":
        return warning("there are Ascend cards, but MindSpore runs on {device}", OF_ASCEND, device=device)
    found = tr("mindspore and MindNLP's Trainer import; MindSpore runs on {device}", device=device)
    return trouble_in(ended.stderr, MINDSPORE) or ok(found, {"device_target": device})
