"""Patches that let MindNLP 0.4.1 run on a current MindSpore: each is named and says when it can go."""

import functools
from importlib.metadata import PackageNotFoundError, version

from packaging.specifiers import SpecifierSet

from mindnlp_dp_plugin.compat import mindnlp04, quick_import  # noqa: F401  (enters its patches into PATCHES)
from mindnlp_dp_plugin.compat.patch import PATCHES, Patch
from mindnlp_dp_plugin.errors import DataParallelError

SUPPORTED_MINDNLP = SpecifierSet(">=0.4.1,<0.5")

__all__ = ["PATCHES", "Patch", "bridge", "check_mindnlp"]


def check_mindnlp() -> None:
    """Reject a MindNLP version that the plugin does not support.

    Raises:
        DataParallelError: If MindNLP is missing or of an unsupported version.
    """
    try:
        installed = version("mindnlp")
    except PackageNotFoundError:
        raise DataParallelError("MindNLP is not installed: pip install 'mindnlp>=0.4.1,<0.5'.") from None
    if installed not in SUPPORTED_MINDNLP:
        raise DataParallelError(
            "MindNLP {installed} is not supported: it has another Trainer. Supported is mindnlp{supported_mindnlp}: "
            "pip install 'mindnlp>=0.4.1,<0.5'.",
            installed=installed,
            supported_mindnlp=SUPPORTED_MINDNLP,
        )


@functools.cache
def bridge() -> None:
    """Let MindNLP import and run on the installed MindSpore, in whatever order the two are imported later."""
    quick_import.schedule()
    for gap in PATCHES:
        gap.schedule()
