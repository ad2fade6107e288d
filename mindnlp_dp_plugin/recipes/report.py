"""The page a run leaves: scores, plots, command, versions, and how to use the model; one file, nothing beside it."""

import io
import warnings
from html import escape
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mindnlp_dp_plugin.recipes.run_folder import RunFolder

CURVES = {
    "train/loss": "loss",
    "train/learning_rate": "learning rate",
    "train/samples_per_second": "samples/s, all ranks",
    "train/communication_wait_seconds": "waiting for other ranks, s per step",
}
MOST_CLASSES_DRAWN = 30
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse}td,th{padding:.15rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap}
svg{max-width:100%;height:auto}"""


def write(folder: RunFolder, results: dict) -> None:
    """Write the report of a run, whole or not at all.

    Args:
        folder: The run's; its event files are drawn.
        results: What is in its ``metrics.json``.
    """
    parts = [f"<h1>{escape(folder.home.resolve().name)}</h1>"]
    for split, scores in results["splits"].items():
        parts += [
            f"<h2>{split}: accuracy {scores['accuracy']:.4f}, F1 {scores['f1']:.4f}</h2>",
            _table(scores["per_class"]),
            _draw_confusion(scores["confusion_matrix"], results["label_names"]),
        ]
    parts += ["<h2>Training</h2>", _draw_curves(read_curves(folder.tensorboard))]
    parts += ["<h2>Use the model</h2>", f"<pre>{escape(snippet(folder.model))}</pre>"]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts += ["<h2>Command</h2>", f"<pre>{escape(results['command'])}</pre>"]
    parts += [f"<p>{results['ranks']} ranks on {escape(results['machine'])}<br>{escape(versions)}</p>"]
    page = f"<!doctype html><meta charset=utf-8><title>Training report</title><style>{STYLE}</style>{''.join(parts)}"
    unfinished = folder.report.with_name(f"incomplete-{folder.report.name}")
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(folder.report)


def snippet(model: Path, sentence: str = "What a wonderful film.") -> str:
    """Three lines of Python that load a model and classify a sentence."""
    return "\n".join(
        [
            "import mindnlp_dp_plugin",
            "from mindnlp.transformers import pipeline",
            f'print(pipeline("text-classification", model={str(model.resolve())!r})({sentence!r}))',
        ]
    )


def read_curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of each scalar in a folder of TensorBoard files."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def _table(rows):
    head = "".join(f"<th>{name}</th>" for name in rows[0])
    cells = ("".join(f"<td>{_shown(value)}</td>" for value in row.values()) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _shown(value):
    return f"{value:.3f}" if isinstance(value, float) else escape(str(value))


def _draw_curves(curves):
    figure = Figure(figsize=(10, 6), layout="constrained")
    for axes, (tag, title) in zip(figure.subplots(2, 2).flat, CURVES.items()):
        axes.plot(*zip(*curves.get(tag, [(0, float("nan"))])), label="train")
        if tag == "train/loss" and "eval/loss" in curves:
            axes.plot(*zip(*curves["eval/loss"]), "o", label="dev")
            axes.legend()
        axes.set(title=title, xlabel="optimizer step", ylim=(0, None))
        axes.grid(alpha=0.3)
    return _svg(figure)


def _draw_confusion(matrix, label_names):
    if len(label_names) > MOST_CLASSES_DRAWN:
        return f"<p>Too many classes to draw ({len(label_names)}); the confusion matrix is in metrics.json.</p>"
    counts = np.array(matrix)
    side = 2.2 + 0.45 * len(label_names)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
    for (true, predicted), count in np.ndenumerate(counts):
        dark = count > counts[true].sum() / 2
        axes.text(predicted, true, count, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(label_names)), label_names, rotation=45, ha="right")
    axes.set_yticks(range(len(label_names)), label_names)
    axes.set(xlabel="predicted", ylabel="true")
    return _svg(figure)


def _svg(figure):
    drawn = io.StringIO()
    # Text as text: the browser has the fonts for any label, which matplotlib may not have.
    with matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
