"""A patch: one gap between MindNLP 0.4.1 and a MindSpore it was not written for, and its bridge."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import wrapt
from packaging.version import Version


@dataclass(frozen=True)
class Patch:
    """One gap and its bridge.

    Attributes:
        name: What to call it.
        bridges: What is broken without it.
        needed_from: The first MindSpore version that has the gap.
        mended_in: The first that has it no more; None while there is none.
        obsolete_when: What would have to change upstream for this patch to be deleted.
        module: The module after whose import the bridge is built.
        apply: Builds the bridge, given that module.
    """

    name: str
    bridges: str
    needed_from: Version
    mended_in: Version | None
    obsolete_when: str
    module: str
    apply: Callable

    def is_needed(self) -> bool:
        """Whether the installed MindSpore has this gap."""
        installed = _installed_mindspore()
        return self.needed_from <= installed and (self.mended_in is None or installed < self.mended_in)

    def schedule(self) -> None:
        """Build the bridge as soon as the module is there, which may be now."""
        if self.is_needed():
            wrapt.register_post_import_hook(self.apply, self.module)


@functools.cache
def _installed_mindspore():
    """Its version, read once: all of its metadata has to be parsed for it, and forty patches ask."""
    return Version(version("mindspore"))


PATCHES: list[Patch] = []


def patch(*, module: str, bridges: str, needed_from: str, obsolete_when: str, mended_in: str | None = None) -> Callable:
    """Enter the decorated function, which is given ``module`` once imported, into ``PATCHES`` under its own name."""

    def enter(apply):
        mended = Version(mended_in) if mended_in else None
        PATCHES.append(Patch(apply.__name__, bridges, Version(needed_from), mended, obsolete_when, module, apply))
        return apply

    return enter
