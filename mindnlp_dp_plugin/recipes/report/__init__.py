"""The report of a run: one self-contained HTML page, in English or Chinese, light or dark."""

import inspect
from datetime import date
from functools import partial
from pathlib import Path

import jinja2

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.advice import give_advice
from mindnlp_dp_plugin.recipes.languages import report_language
from mindnlp_dp_plugin.recipes.models import weights_of
from mindnlp_dp_plugin.recipes.registry import recipe_that_trains
from mindnlp_dp_plugin.recipes.report.charts import Series, bar_chart, line_chart, matrix_chart, scatter_chart
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import shown_label
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import judge
from mindnlp_dp_plugin.recipes.words import named, remark, say

MOST_IN_MATRIX = 24
MOST_BARS = 12
MOST_IN_TABLE = 60
SHOWN_MISTAKES = 6


def write(folder: RunFolder, results: dict) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        folder: The run's.
        results: What is in its ``metrics.json``.
    """
    code = report_language(results["language"])
    task, split = get_task(results["task"]), list(results["splits"])[-1]
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
        "label": shown_label,
        "scatter": scatter_chart,
        "matrix": matrix_chart,
        "most_in_matrix": MOST_IN_MATRIX,
        "most_bars": MOST_BARS,
        "most_in_table": MOST_IN_TABLE,
        "shown_mistakes": SHOWN_MISTAKES,
    }
    page = environment.get_template("template.html").render(
        results=results,
        language=code,
        split=split,
        scores=results["splits"][split],
        task=task,
        own_part=own_part.name,
        recipe=recipe_that_trains(results["task"], results["settings"].get("dataset") is None),
        run_yaml=Path(results["settings"].get("output_dir", "."), "run.yaml"),
        day=date.today(),
        verdict=judge(task, results, code),
        advice=give_advice(results, code, task.shown_score),
        duration=say(_duration(results["seconds"]), code),
        comparisons={name: _comparison(task, results, split, name, code) for name in (task.main_score, *task.shown)},
        curves=_curves(task, results, code),
        distribution=_distribution(results["data"]["rows"]),
        run_settings={name: value for name, value in results["settings"].items() if value not in (None, [], False)},
    )
    folder.write_report(page)


def _comparison(task, results, split, name, code):
    """Bars of a score: this model's, then the baselines', the best first."""
    others = sorted(results["baselines"].items(), key=lambda each: each[1][name], reverse=name not in task.falling)
    found = {named("this_model", code): results["splits"][split][name]}
    found |= {named(baseline, code): scores[name] for baseline, scores in others}
    end = max(1, *found.values()) if name in task.not_shares else 1
    return bar_chart({"": found}, [[task.shown_score(name, value) for value in found.values()]], end)


def _curves(task, results, code):
    """Figures by epoch: of loss, and of the scores that count most. One evaluation alone is no curve."""
    history, best = results["history"], results["best"]

    def series(tag, name, has_dots=True):
        return Series(name, [(entry["epoch"], entry[tag]) for entry in history if tag in entry], has_dots)

    epoch = say(remark(Message("epoch")), code)
    mark = (best["epoch"], say(remark(Message("kept")), code)) if best else (None, "")
    losses = [series("loss", say(remark(Message("train")), code), has_dots=False), series("eval_loss", "dev")]
    drawn = {named("loss", code): line_chart(losses, epoch, False, *mark)}
    for are_shares in (True, False):
        names = [name for name in (task.main_score, *task.shown) if (name not in task.not_shares) is are_shares]
        names = list(dict.fromkeys(names))[: 2 if are_shares else 1]
        scored = [series(f"eval_{name}", named(name, code)) for name in names]
        title = say(remark(Message("{scores} on dev"), scores=[each.name for each in scored]), code)
        drawn[title] = line_chart(scored, epoch, are_shares, *mark)
    return {title: chart for title, chart in drawn.items() if chart}


def _distribution(rows):
    """Bars of what there is in each split: shares of the split, with their numbers."""
    names = list(rows["train"])[:MOST_BARS]
    totals = {split: sum(counts.values()) or 1 for split, counts in rows.items()}
    shares = {split: {name: counts.get(name, 0) / totals[split] for name in names} for split, counts in rows.items()}
    texts = [[f"{rows[split].get(name, 0):,} ({shares[split][name]:.0%})" for name in names] for split in rows]
    return bar_chart(shares, texts)


def _duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    if not minutes:
        return remark(Message("{seconds} s"), seconds=seconds)
    return remark(Message("{minutes} min {seconds} s"), minutes=minutes, seconds=seconds)
