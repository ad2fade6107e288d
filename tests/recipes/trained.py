"""A folder that looks as if a task had been trained into it, and what is asked of it."""

import json

from mindnlp_dp_plugin.recipes.request import make_request


def asked_of(folder, task, text_columns, label_column, **kept):
    """Returns a function that makes a request of the inputs it is given."""
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / "config.json").write_text("{}")
    data = {"text_columns": text_columns, "label_column": label_column}
    (folder / "metrics.json").write_text(json.dumps({"task": task, "data": data, **kept}))

    def ask(*inputs, columns=(), **how):
        return make_request(folder, tuple(map(str, inputs)), columns, None, None, **how)

    return ask
