"""Write the public names of MindNLP's models, by folder: ``python -m tests.model_names``."""

import json
import types

from mindnlp_dp_plugin.compat.mindnlp04.models_when_used import MODELS, TABLE


def public_names() -> dict:
    """The table, as MindNLP imported as it comes has it."""
    from importlib.metadata import version

    import mindnlp.transformers.models as models

    folders = [name for name, value in vars(models).items() if isinstance(value, types.ModuleType)]
    names = {name: [] for name in folders if vars(models)[name].__name__ == f"{MODELS}.{name}"}
    for name in dict.fromkeys(models.__all__):
        value = getattr(models, name)
        home = [folder for folder in names if _has(vars(models)[folder], name, value)][-1]
        names[home].append(name)
    return {"mindnlp": version("mindnlp"), "names": names}


def _has(module, name, value):
    return name in getattr(module, "__all__", ()) and vars(module).get(name) is value


if __name__ == "__main__":
    from mindnlp_dp_plugin import compat
    from mindnlp_dp_plugin.compat.mindnlp04 import models_when_used

    models_when_used.schedule = lambda: None
    compat.bridge()
    table = public_names()
    lines = ",\n".join(f"    {json.dumps(folder)}: {json.dumps(names)}" for folder, names in table["names"].items())
    TABLE.write_text(f'{{\n  "mindnlp": {json.dumps(table["mindnlp"])},\n  "names": {{\n{lines}\n  }}\n}}\n')
