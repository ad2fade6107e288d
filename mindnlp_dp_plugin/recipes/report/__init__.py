"""The report of a run: one self-contained HTML page, in English or Chinese, light or dark."""

from datetime import date
from functools import partial
from pathlib import Path

import jinja2

from mindnlp_dp_plugin.recipes.advice import give_advice
from mindnlp_dp_plugin.recipes.report.charts import Series, line_chart
from mindnlp_dp_plugin.recipes.run_folder import RunFolder, write_text
from mindnlp_dp_plugin.recipes.words import WORDS, say

MOST_IN_MATRIX = 24
MOST_IN_TABLE = 60
MOST_CONFUSIONS = 20
SHOWN_MISTAKES = 6


def write(folder: RunFolder, results: dict) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        folder: The run's.
        results: What is in its ``metrics.json``.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    words = WORDS[results["language"]]
    split = list(results["splits"])[-1]
    page = environment.get_template("template.html").render(
        results=results,
        words=words,
        say=partial(say, language=results["language"]),
        split=split,
        scores=results["splits"][split],
        num_rows=sum(each["rows"] for each in results["splits"][split]["per_class"]),
        title=_title(results, words),
        day=date.today(),
        verdict=_verdict(results["splits"][split], results["baselines"], words),
        advice=give_advice(results, results["language"]),
        duration=_duration(results["seconds"], words),
        charts=_charts(results, words),
        confusions={name: _confusions(of, results["label_names"]) for name, of in results["splits"].items()},
        snippet=snippet(*results["sample"]),
        most_in_matrix=MOST_IN_MATRIX,
        most_in_table=MOST_IN_TABLE,
        shown_mistakes=SHOWN_MISTAKES,
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


def _verdict(scores, baselines, words):
    """How it compares, in words, and the class of style that goes with it."""
    points = round(100 * (scores["macro_f1"] - baselines["tfidf"]["macro_f1"]), 1)
    if points == 0:
        return words["equal"], "fair"
    return words["above" if points > 0 else "below_tfidf"].format(points=abs(points)), "good" if points > 0 else "bad"


def _duration(seconds, words):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "hours"), (minutes, "minutes"), (seconds, "seconds")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    return " ".join(f"{count} {words[unit]}" for count, unit in parts[:2])


def _charts(results, words):
    """Loss, and the scores by which epochs are chosen, by epoch."""
    history, best = results["history"], results["best"]

    def points(tag):
        return [(entry["epoch"], entry[tag]) for entry in history if tag in entry]

    losses = [Series(words["training"], points("loss"), "first"), Series("dev", points("eval_loss"), "second", True)]
    scored = [
        Series(words["macro_f1"], points("eval_macro_f1"), "first", True),
        Series(words["accuracy"], points("eval_accuracy"), "second", True),
    ]
    mark = (best["epoch"], words["kept"]) if best else (None, "")
    drawn = [(words["loss"], losses), (f"{words['macro_f1']} / {words['accuracy']} (dev)", scored)]
    return [
        (title, [each for each in series if each.points], chart)
        for title, series in drawn
        if (chart := line_chart(series, words["epoch"], *mark))
    ]


def _confusions(scores, names):
    """The most frequent mistakes: (count, true, predicted)."""
    found = [
        (count, names[true], names[predicted])
        for true, row in enumerate(scores["confusion_matrix"])
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    return sorted(found, key=lambda each: -each[0])[:MOST_CONFUSIONS]
