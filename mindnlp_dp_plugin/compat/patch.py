"""A patch: one gap in MindNLP, or between it and a MindSpore it was not written for, and its bridge."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import wrapt
from packaging.specifiers import SpecifierSet
from packaging.version import Version


@dataclass(frozen=True)
class Patch:
    """One gap and its bridge.

    Attributes:
        name: What to call it.
        bridges: What is broken without it.
        mindspore: The versions of MindSpore that have the gap; of the supported ones all, if empty.
        obsolete_when: What would have to change upstream for this patch to be deleted.
        module: The module after whose import the bridge is built.
        apply: Builds the bridge, given that module.
    """

    name: str
    bridges: str
    mindspore: SpecifierSet
    obsolete_when: str
    module: str
    apply: Callable

    def is_needed(self) -> bool:
        """Whether the installed MindSpore has this gap."""
        return self.mindspore.contains(_installed_mindspore(), prereleases=True)

    def schedule(self) -> None:
        """Build the bridge as soon as the module is there, which may be now."""
        if self.is_needed():
            wrapt.register_post_import_hook(self.apply, self.module)


@functools.cache
def _installed_mindspore():
    """Its version, read once: all of its metadata has to be parsed for it, and forty patches ask."""
    return Version(version("mindspore"))


PATCHES: list[Patch] = []


def patch(*, module: str, bridges: str, obsolete_when: str, mindspore: str = "") -> Callable:
    """Enter the decorated function, which is given ``module`` once imported, into ``PATCHES`` under its own name."""

    def enter(apply):
        versions = SpecifierSet(mindspore)
        PATCHES.append(Patch(apply.__name__, bridges, versions, obsolete_when, module, apply))
        return apply

    return enter
