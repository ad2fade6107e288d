"""Where bits come from: another processor, or another version, may round differently."""

import functools
from importlib.metadata import PackageNotFoundError, version

from mindnlp_dp_plugin.job.hardware import processor

PACKAGES = ("mindspore", "mindnlp", "mindnlp-dp-plugin", "numpy")


@functools.cache
def environment() -> dict[str, str]:
    """The processor, and the version of each package that computes."""
    return {"processor": processor(), **{name: _version(name) for name in PACKAGES}}


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
