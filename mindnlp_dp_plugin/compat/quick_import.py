"""Import MindNLP in less time."""

import gc
import importlib.util
import sys
from importlib.abc import MetaPathFinder

from mindnlp_dp_plugin.compat.mindnlp04 import models_when_used


def schedule() -> None:
    """Let the import of MindNLP be quick, if it is still to come."""
    if "mindnlp" not in sys.modules:
        models_when_used.schedule()
        sys.meta_path.insert(0, _WithoutCollections())


class _WithoutCollections(MetaPathFinder):
    """Finds MindNLP as others do, but nobody looks for garbage while it is executed, which makes a million objects."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "mindnlp":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            spec.loader.exec_module = _without_collections(spec.loader.exec_module)
        return spec


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
