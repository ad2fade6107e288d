"""The report of a run: one self-contained HTML page, in English or Chinese, light or dark."""

import inspect
import json
from datetime import date
from functools import partial
from pathlib import Path

import jinja2

from mindnlp_dp_plugin.language import translated
from mindnlp_dp_plugin.recipes.advice import give_advice
from mindnlp_dp_plugin.recipes.languages import report_language
from mindnlp_dp_plugin.recipes.registry import recipe_that_trains
from mindnlp_dp_plugin.recipes.report.charts import Series, line_chart, scatter_chart
from mindnlp_dp_plugin.recipes.run_folder import RunFolder, write_text
from mindnlp_dp_plugin.recipes.scores import shown_label
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import judge
from mindnlp_dp_plugin.recipes.words import say
from mindnlp_dp_plugin.recipes.words import words as words_in

MOST_IN_MATRIX = 24
MOST_IN_TABLE = 60
SHOWN_MISTAKES = 6
STYLES = ("first", "second")


def write(folder: RunFolder, results: dict) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        folder: The run's.
        results: What is in its ``metrics.json``.
    """
    language = report_language(results["language"])
    task = get_task(results["task"])
    own_part = Path(inspect.getfile(type(task))).with_suffix(".html")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, own_part.parent]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = words_in(language)
    split = list(results["splits"])[-1]
    page = environment.get_template("template.html").render(
        results=results,
        words=words,
        say=partial(say, code=language),
        language=language,
        split=split,
        scores=results["splits"][split],
        task=task,
        rivals=partial(_rivals, task, results, split, words),
        shown=task.shown_score,
        percent="{:.1%}".format,
        own_part=own_part.name,
        distribution=translated(task.distribution, language),
        label=shown_label,
        title=_title(results, words),
        recipe=recipe_that_trains(results["task"], results["settings"].get("dataset") is None),
        run_yaml=Path(results["settings"].get("output_dir", "."), "run.yaml"),
        day=date.today(),
        verdict=judge(task, results, words),
        advice=give_advice(results, language, task.shown_score),
        duration=_duration(results["seconds"], words),
        proof=json.loads(folder.proof.read_text(encoding="utf-8")) if folder.proof.exists() else None,
        charts=_charts(task, results, words),
        scatter=scatter_chart,
        snippet=snippet(*results["sample"]),
        most_in_matrix=MOST_IN_MATRIX,
        most_in_table=MOST_IN_TABLE,
        shown_mistakes=SHOWN_MISTAKES,
        **task.report_values(results),
        run_settings={name: value for name, value in results["settings"].items() if value not in (None, [], False)},
    )
    write_text(folder.report, page)


def snippet(*texts: str) -> str:
    """Three lines of Python that load the model of the folder they are run in, and classify a text or a pair."""
    asked = texts[0] if len(texts) == 1 else texts
    return "\n".join(
        [
            "from mindnlp_dp_plugin.recipes import load_predictor",
            'predict = load_predictor(".")',
            f"print(predict([{asked!r}]))",
        ]
    )


def _title(results, words):
    return Path(results["data"]["dataset"]).name if results["data"]["dataset"] else words["generated"]


def _rivals(task, results, split, words, name):
    """What a score is of, its value, the class of style, and the length of its bar: this model, then the baselines."""
    falls = name in task.falling
    others = sorted(results["baselines"].items(), key=lambda each: each[1][name] * (1 if falls else -1))
    found = [
        (words["this_model"], results["splits"][split][name], "mine"),
        *((words[baseline], scores[name], "") for baseline, scores in others),
    ]
    longest = max(value for _, value, _ in found) if falls else 1
    return [(*each, max(0, each[1]) / longest) for each in found]


def _duration(seconds, words):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "hours"), (minutes, "minutes"), (seconds, "seconds")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    return " ".join(f"{count} {words[unit]}" for count, unit in parts[:2])


def _charts(task, results, words):
    """Loss, and the two scores that count most, by epoch."""
    history, best = results["history"], results["best"]

    def points(tag):
        return [(entry["epoch"], entry[tag]) for entry in history if tag in entry]

    losses = [Series(words["training"], points("loss"), "first"), Series("dev", points("eval_loss"), "second", True)]
    names = [task.main_score, *(name for name in task.shown if name != task.main_score)][: 1 if task.falling else 2]
    scored = [Series(words[name], points(f"eval_{name}"), style, True) for name, style in zip(names, STYLES)]
    mark = (best["epoch"], words["kept"]) if best else (None, "")
    drawn = [(words["loss"], losses), (f"{' / '.join(words[name] for name in names)} (dev)", scored)]
    return [
        (title, [each for each in series if each.points], chart)
        for title, series in drawn
        if (chart := line_chart(series, words["epoch"], *mark))
    ]
