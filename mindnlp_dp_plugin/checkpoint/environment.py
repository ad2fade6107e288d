"""Where bits come from: another processor, or another version, may round differently."""

import functools
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mindnlp_dp_plugin.job.hardware import read

PACKAGES = ("mindspore", "mindnlp", "mindnlp-dp-plugin", "numpy")


@functools.cache
def environment() -> dict[str, str]:
    """The processor, and the version of each package that computes."""
    return {"processor": _processor(), **{name: _version(name) for name in PACKAGES}}


def _processor():
    """What the processor calls itself."""
    names = re.findall(r"^model name\s*: (.*)$", read(Path("/proc/cpuinfo")) or "", re.MULTILINE)
    return names[0] if names else platform.machine()


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
