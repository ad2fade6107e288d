"""Write the output folder of a run from a trained model."""

import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.metadata import distributions
from typing import Any

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.job.variables import COMMAND_LINE
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.models import merge_lora, weights_of
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import PreparedData
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import decimal, first_of
from mindnlp_dp_plugin.recipes.tasks import Task, get_task
from mindnlp_dp_plugin.recipes.verdict import give_advice
from mindnlp_dp_plugin.recipes.words import joined, named, say

PACKAGES = ("mindnlp-dp-plugin", "mindspore", "mindnlp", "datasets", "tokenizers", "numpy", "mpi4py")
KEPT_OF_DATA = ("num_rows", "rows", "cut_texts", "duplicates", "text_columns", "label_column", "remarks")
COUNTED = {  # rows of a split
    "cut_texts": Message("{split}: texts longer than --max-length, which were cut: {count} ({share:.0%})"),
    "duplicates": Message(
        "{split}: rows with a text that is in train, too: {count}; they score better than new texts would"
    ),
}


def introduction(data: PreparedData) -> str:
    """The first lines of a run: the model, the data, and the baselines."""
    facts, model = data.facts, data.model
    line = tr("model: {name}, {weights}", name=model.name, weights=weights_of(model.origin))
    lines = [f"{line} ({say(facts['why'])})" if facts["why"] else line]
    lines += map(say, facts["remarks"])
    for split, counts in facts["rows"].items():
        of_each = first_of([f"{name} ({count})" for name, count in counts.items()])
        known = {"rows": facts["num_rows"][split], "counted": data.task.distribution, "counts": ", ".join(of_each)}
        lines.append(tr("{split}: {rows} rows. {counted}: {counts}", split=split, **known))
    for fact, message in COUNTED.items():
        for split, count in facts[fact].items():
            share = count / facts["num_rows"][split]
            lines += [tr(message, split=split, count=count, share=share)] if count else []
    lines += [to_beat(data.task, *baseline) for baseline in facts["baselines"].items()]
    return "\n".join(lines)


def to_beat(task: Task, name: str, scores: dict) -> str:
    """The line about a baseline."""
    shown = {"split": scores["split"], "scores": task.in_words(scores), "name": named(name)}
    return tr("to beat on {split}: {scores} by {name}", **shown)


def leave_results(
    trainer: Any, outcome: dict, data: PreparedData, folder: RunFolder, options: RecipeOptions, began: float
) -> dict:
    """Save the model, and write metrics, report and settings. On one rank.

    Long, as it is the one list of what ``metrics.json`` holds.

    Args:
        trainer: Has the model; one with LoRA is saved with the adapters worked into its weights.
        outcome: The scores of ``splits``, and those over ``folds``, None without.
        data: What it was trained on.
        folder: Where to.
        options: How it was trained.
        began: ``time.monotonic()`` when the run began.

    Returns:
        What is in ``metrics.json``.
    """
    facts, state, tag = data.facts, trainer.state, f"eval_{options.best_by}"
    best = state.best_metric if outcome["folds"] is None else None
    epochs = [entry["epoch"] for entry in state.log_history if best is not None and entry.get(tag) == best]
    model = merge_lora(trainer.model) if hasattr(trainer.model, "peft_config") else trainer.model
    folder.write_model(model, data.tokenizer)
    versions = {name: each.version for name in PACKAGES for each in list(distributions(name=name))[:1]}
    results = {
        "task": facts["task"],
        **outcome,
        "baselines": facts["baselines"],
        "model": {
            "name": data.model.name,
            "parameters": sum(int(parameter.size) for parameter in model.parameters()),
            "pretrained": data.model.origin is not None,
            "origin": data.model.origin,
            "why": facts["why"],
        },
        "data": {**{name: facts[name] for name in KEPT_OF_DATA}, "dataset": options.dataset},
        **{name: facts[name] for name in facts["kept"]},
        "best": {"epoch": epochs[0], "by": options.best_by, "value": best} if epochs else None,
        "language": facts["language"],
        "settings": {
            **options.settings,
            "learning_rate": options.chosen_learning_rate,
            "epochs": trainer.args.num_train_epochs,
        },
        "seconds": time.monotonic() - began,
        "command": os.environ.get(COMMAND_LINE) or shlex.join(["python", *sys.argv]),
        "ranks": dp.get_world_size(),
        "machine": platform.platform(),
        "versions": {"python": platform.python_version(), **versions},
        "history": state.log_history,
        "parallel": trainer.throughput.summary(state.global_step),
    }
    results["advice"] = give_advice(results, "en")
    folder.write_results(results)
    folder.write_settings(options, facts["task"])
    report.write(folder, results)
    return results


def summary(results: dict, folder: RunFolder, trackers: Sequence[str]) -> str:
    """The last lines of a run: scores beside the baselines, advice, and paths."""
    task, model = get_task(results["task"]), results["model"]
    known = {"name": model["name"], "count": model["parameters"], "weights": weights_of(model["origin"])}
    lines = [tr("{name}, {count:,} parameters, {weights}:", **known)]
    for split, scores in results["splits"].items():
        shown = task.in_words(scores, positive=results.get("positive_label"))
        lines.append(tr("{scores} on {rows} {split} rows", scores=shown, rows=scores["rows"], split=split))
    if folds := results["folds"]:
        means = [f"{named(name)} {decimal(of['mean'])} ± {decimal(of['std'])}" for name, of in folds["scores"].items()]
        line = Message("over {count} folds: {means}; the model kept is that of fold {kept}")
        lines.append(tr(line, count=folds["count"], means=joined(means), kept=folds["kept"]))
    if best := results["best"]:
        line = Message("kept: epoch {epoch:g}, the best by {score} on dev")
        lines.append(tr(line, epoch=best["epoch"], score=named(best["by"])))
    for name, scores in results["baselines"].items():
        lines.append(tr("{scores} by {name}", scores=task.in_words(scores), name=named(name)))
    lines += [tr("WARNING: {advice}", advice=each) for each in give_advice(results)]
    paths = [tr("model: {path}", path=folder.model), tr("report: {path}", path=folder.report)]
    paths += [tr("curves: {path}", path=folder.home / name) for name in trackers if not folds]
    lines.append("    ".join(paths))
    lines.append(tr("predict: mindnlp-dp predict {folder} 'your text'", folder=shlex.quote(str(folder.home))))
    return "\n".join(lines)
