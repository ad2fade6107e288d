"""Import MindSpore and MindNLP in less time."""

import gc
import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from mindnlp_dp_plugin.job.hardware import has_ascend

MINDSPORE = "mindspore"
OPERATORS_OF_CARDS = ("mindspore.ops._op_impl.aicpu", "mindspore.ops._op_impl.akg")  # 500, told to MindSpore one by one
IMAGES = "scipy.ndimage"  # for three of MindSpore's metrics


def schedule_mindspore() -> None:
    """Let the import of MindSpore be quick, if it is still to come."""
    if MINDSPORE in sys.modules:
        return
    sys.meta_path.insert(0, _WithoutCollections(MINDSPORE, _with_images_when_used))
    if not has_ascend():
        sys.meta_path.insert(0, _LeftOut())


def schedule_mindnlp() -> None:
    """Let the import of MindNLP 0.4 be quick, if it is still to come."""
    from mindnlp_dp_plugin.compat.mindnlp04 import models_when_used  # enters 0.4's patches

    if "mindnlp" not in sys.modules:
        models_when_used.schedule()
        sys.meta_path.insert(0, _WithoutCollections("mindnlp"))


class _WithoutCollections(MetaPathFinder):
    """Finds a package as others do, but nobody looks for garbage while it is executed, which makes a million objects.

    Args:
        name: The package.
        around: Makes another function of the one that executes it.
    """

    def __init__(self, name: str, around=lambda execute: execute):
        self._name, self._around = name, around

    def find_spec(self, fullname, path, target=None):
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            spec.loader = _Executing(spec.loader, _without_collections(self._around(spec.loader.exec_module)))
        return spec


class _Executing(Loader):
    """A loader but for how it executes: set on itself, wrapt's would call the new function for the old one, too."""

    def __init__(self, loader, execute):
        self._loader, self.exec_module = loader, execute

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _LeftOut(MetaPathFinder, Loader):
    """Finds an empty package in place of one whose operators no processor runs."""

    def find_spec(self, fullname, path, target=None):
        return ModuleSpec(fullname, self, is_package=True) if fullname in OPERATORS_OF_CARDS else None

    def exec_module(self, module):
        """There is nothing in it."""
        module.__all__ = []


class _ImportedWhenUsed(ModuleType):
    """Stands for a module, or for one that is an attribute of it, until something of it is asked for."""

    def __getattr__(self, name):
        if name.startswith("__"):  # who looks for a module's file, among all there are, uses nothing of it
            raise AttributeError(name)
        if sys.modules.get(IMAGES) is _IMAGES:
            del sys.modules[IMAGES]
        images = importlib.import_module(IMAGES)
        return getattr(images if self is _IMAGES else images.morphology, name)


_IMAGES = _ImportedWhenUsed(IMAGES)
_IMAGES.morphology = _ImportedWhenUsed(f"{IMAGES}.morphology")


def _with_images_when_used(execute):
    def exec_module(module):
        if IMAGES in sys.modules:
            return execute(module)
        sys.modules[IMAGES] = _IMAGES
        try:
            return execute(module)
        finally:
            if sys.modules.get(IMAGES) is _IMAGES:
                del sys.modules[IMAGES]

    return exec_module


def _without_collections(execute):
    def exec_module(module):
        if not gc.isenabled():
            return execute(module)
        gc.disable()
        try:
            return execute(module)
        finally:
            gc.freeze()  # modules and classes stay: no later collection has to visit them
            gc.enable()

    return exec_module
