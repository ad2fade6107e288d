"""Patches that let the installed MindNLP run on a current MindSpore: each is named and says when it can go."""

import functools
import importlib.util
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from mindnlp_dp_plugin.compat.patch import PATCHES, Patch
from mindnlp_dp_plugin.errors import DataParallelError

__all__ = [
    "EXTRA",
    "PATCHES",
    "Patch",
    "bridge",
    "check_mindnlp",
    "has_mindnlp05",
    "installed_mindnlp",
    "require_mindnlp04",
]

SUPPORTED = {"mindnlp04": SpecifierSet(">=0.4.1,<0.5"), "mindnlp05": SpecifierSet(">=0.5.1,<0.6")}  # by extra
UNRELEASED = "mindtorch_v2"
TOO_NEW = {"transformers": "5", "peft": "0.19", "diffusers": "0.36"}  # from there on MindNLP 0.5.1 cannot import them


def installed_mindnlp() -> str | None:
    """Its version; None without one."""
    try:
        return version("mindnlp")
    except PackageNotFoundError:
        return None


def has_mindnlp05() -> bool:
    """Whether Hugging Face's Trainer is served; otherwise MindNLP's own."""
    return EXTRA == "mindnlp05"


def check_mindnlp() -> None:
    """Reject a MindNLP version that the plugin does not support, and what MindNLP 0.5 cannot import.

    Raises:
        DataParallelError: If MindNLP is missing or of an unsupported version, or a package is too new for it.
    """
    installed = installed_mindnlp()
    if installed is None:
        raise DataParallelError(
            "MindNLP is not installed. For its own Trainer, from mindnlp.engine: pip install "
            "'mindnlp-dp-plugin[mindnlp04]'. For Hugging Face's, from transformers: pip install "
            "'mindnlp-dp-plugin[mindnlp05]'."
        )
    if installed not in SUPPORTED[EXTRA] or importlib.util.find_spec(UNRELEASED):
        raise DataParallelError(
            "MindNLP {installed} is not supported: before 0.4.1 nothing averages gradients, and from 0.6 on "
            "(mindtorch_v2) it does so itself. For MindNLP's own Trainer: pip install 'mindnlp-dp-plugin[mindnlp04]'. "
            "For Hugging Face's: pip install 'mindnlp-dp-plugin[mindnlp05]'.",
            installed=installed,
        )
    if has_mindnlp05():
        _require_importable()


def require_mindnlp04(name: str) -> None:
    """Refuse a name of the plugin that knows MindNLP 0.4's own models or Trainer.

    Raises:
        DataParallelError: If MindNLP 0.5 is installed.
    """
    if has_mindnlp05():
        raise DataParallelError(
            "dp.{name} is for MindNLP 0.4. With MindNLP 0.5 train with transformers.Trainer.", name=name
        )


@functools.cache
def bridge() -> None:
    """Let MindNLP import and run on the installed MindSpore, in whatever order the two are imported later."""
    from mindnlp_dp_plugin.compat import quick_import

    quick_import.schedule_mindspore()
    if not has_mindnlp05():
        quick_import.schedule_mindnlp()
    elif "mindtorch" in sys.modules:
        raise DataParallelError("MindNLP was imported first: put `import mindnlp_dp_plugin` before it in the script.")
    for gap in PATCHES:
        gap.schedule()


def _require_importable():
    for name, bound in TOO_NEW.items():
        with suppress(PackageNotFoundError):
            if Version(found := version(name)) >= Version(bound):
                raise DataParallelError(
                    "{name} {found} is installed, and MindNLP 0.5 cannot import {name} from {bound} on: pip install "
                    "'{name}<{bound}'.",
                    name=name,
                    found=found,
                    bound=bound,
                )


def _fitting_extra():
    """The extra that is nearest to what is installed; without a MindNLP the course's."""
    installed = installed_mindnlp()
    return "mindnlp05" if installed and Version(installed) >= Version("0.5") else "mindnlp04"


EXTRA = _fitting_extra()

if has_mindnlp05():
    from mindnlp_dp_plugin.compat import mindnlp05  # noqa: F401  (enters its patches into PATCHES)
else:
    from mindnlp_dp_plugin.compat import mindnlp04  # noqa: F401  (enters its patches into PATCHES)
