"""The report of a run: a template that is filled, one HTML page in English or Chinese, light or dark."""

import inspect
import os
import shlex
from datetime import date
from functools import partial
from pathlib import Path

import jinja2

from mindnlp_dp_plugin.language import VARIABLE, Message, language
from mindnlp_dp_plugin.recipes.models import weights_of
from mindnlp_dp_plugin.recipes.registry import RECIPES
from mindnlp_dp_plugin.recipes.report.charts import line_chart, scatter_chart
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import shown_label
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import give_advice, judge
from mindnlp_dp_plugin.recipes.words import joined, named, remark, say

LIMITS = {"most_in_matrix": 24, "most_bars": 12, "most_in_table": 60, "shown_mistakes": 6}


def write(folder: RunFolder, results: dict) -> None:
    """Write the report of a run, whole or not at all. Long, as it is the one list of what the templates see.

    Args:
        folder: The run's.
        results: What is in its ``metrics.json``.
    """
    code = "zh" if results["language"] == "zh" and not os.environ.get(VARIABLE) else language()  # else the user's
    task, (split, scores) = get_task(results["task"]), list(results["splits"].items())[-1]
    epoch, kept, train = (say(remark(word), code) for word in (Message("epoch"), Message("kept"), Message("train")))
    mark = (results["best"]["epoch"], kept) if results["best"] else (None, "")

    def points(tag):
        return [(entry["epoch"], entry[tag]) for entry in results["history"] if tag in entry]

    def score_chart(names, are_shares):
        return line_chart({named(name, code): points(f"eval_{name}") for name in names}, epoch, are_shares, *mark)

    recipe = results["task"]
    if results["settings"].get("dataset") is None:  # which not each recipe of a task allows
        recipe = next((name for name, each in RECIPES.items() if each.model and each.task == recipe), recipe)
    own_part = Path(inspect.getfile(type(task))).with_suffix(".html")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, own_part.parent]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "_": lambda template, **fields: say(remark(template, **fields), code),
        "say": partial(say, code=code),
        "named": partial(named, code=code),
        "weights_of": partial(weights_of, code=code),
        "shown": task.shown_score,
        "percent": "{:.1%}".format,
        "number": lambda value: f"{value:,.0f}" if value >= 1000 else f"{value:.4g}",
        "label": shown_label,
        "named_all": lambda names: joined([named(name, code) for name in names], code),
        "losses": line_chart({train: points("loss"), "dev": points("eval_loss")}, epoch, False, *mark),
        "score_chart": score_chart,
        "scatter_chart": scatter_chart,
        **LIMITS,
    }
    page = environment.get_template("template.html").render(
        results=results,
        language=code,
        split=split,
        scores=scores,
        task=task,
        own_part=own_part.name,
        recipe=recipe,
        run_yaml=shlex.quote(str(Path(results["settings"].get("output_dir", "."), "run.yaml"))),
        day=date.today(),
        verdict=judge(results, code),
        advice=give_advice(results, code),
        duration=divmod(round(results["seconds"]), 60),
        run_settings={name: value for name, value in results["settings"].items() if value not in (None, [], False)},
    )
    folder.write_report(page)
