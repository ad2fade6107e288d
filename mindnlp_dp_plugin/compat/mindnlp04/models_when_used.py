"""Import a part of MindNLP when it is asked for: ``import mindnlp`` executes 244 models, with all they import.

``model_names.json`` has the public names of each folder of models in that version; ``python -m tests.model_names``
writes it. Another version is imported as it comes.
"""

import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Container, KeysView
from importlib.abc import MetaPathFinder
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import wrapt

TRANSFORMERS = "mindnlp.transformers"
MODELS = f"{TRANSFORMERS}.models"
DATASET = "mindnlp.dataset"  # brings datasets, with pandas and pyarrow
EVALUATE = "mindnlp.evaluate"  # brings evaluate, with SciPy's statistics
TABLE = Path(__file__).with_name("model_names.json")


def schedule() -> None:
    """Let models wait, if the names of the installed MindNLP are known. Call it before MindNLP is imported."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    if version("mindnlp") == table["mindnlp"]:
        sys.meta_path.insert(0, _Finder(table["names"]))
        wrapt.register_post_import_hook(_look_a_config_up_by_its_name, f"{MODELS}.auto.auto_factory")


class _Finder(MetaPathFinder):
    """Finds these modules as others do, and executes them in its own way."""

    def __init__(self, names: dict[str, list[str]]):
        self._names = names
        self._folder_of = {name: folder for folder, names in names.items() for name in names}

    def find_spec(self, fullname, path, target=None):
        if fullname not in (TRANSFORMERS, MODELS, DATASET, EVALUATE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None:
            return None
        if fullname == EVALUATE:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        elif fullname == DATASET:
            spec.loader.exec_module = _execute_dataset
        elif fullname == MODELS:
            spec.loader.exec_module = self._execute_models
        else:
            spec.loader.exec_module = self._transformers_after(spec.loader.exec_module)
        return spec

    def _execute_models(self, models):
        models.__all__ = []  # what mindnlp.transformers takes over at once
        models.__getattr__ = _imported_when_asked(models, MODELS, self._folder_of, self._names)

    def _transformers_after(self, execute):
        def exec_module(transformers):
            transformers.__getattr__ = _imported_when_asked(transformers, MODELS, self._folder_of)
            execute(transformers)
            models = sys.modules[MODELS]
            models.__all__ = list(self._folder_of)
            transformers.__all__ += self._folder_of
            for module in transformers, models:
                module.__dir__ = lambda module=module: sorted({*vars(module), *self._folder_of})

        return exec_module


def _execute_dataset(dataset):
    dataset.__all__ = ["load", "load_dataset", "map_fn", "BaseMapFunction"]
    dataset.BaseMapFunction = importlib.import_module(f"{DATASET}.map_fn").BaseMapFunction
    dataset.__getattr__ = _imported_when_asked(dataset, DATASET, {"load_dataset": "load"}, ["load"])


def _imported_when_asked(module: ModuleType, package: str, submodule_of: dict[str, str], submodules: Container = ()):
    """``module.__getattr__``, which imports what it is asked for from ``package``."""

    def find(name):
        if name in submodule_of:
            value = getattr(importlib.import_module(f"{package}.{submodule_of[name]}"), name)
            return vars(module).setdefault(name, value)
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    return find


def _look_a_config_up_by_its_name(auto_factory):
    """``type(config) in mapping.keys()``, as AutoModel asks, imports each model that has a config there."""
    mapping_type = auto_factory._LazyAutoMapping
    stock = mapping_type.keys

    class Keys(KeysView):
        def __contains__(self, key):
            mapping = self._mapping
            return key in mapping._extra_content or any(
                mapping._load_attr_from_module(model_type, name) is key
                for model_type, name in mapping._config_mapping.items()
                if name == getattr(key, "__name__", None) and model_type in mapping._model_mapping
            )

        def __iter__(self):
            return iter(stock(self._mapping))

        def __add__(self, others):
            return stock(self._mapping) + others

    mapping_type.keys = lambda self: Keys(self)
