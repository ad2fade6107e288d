"""What a score is worth beside those of baselines, and what to try: in sentences, as remarks."""

from typing import NamedTuple

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import fields_of
from mindnlp_dp_plugin.recipes.scores import decimal
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import NAMES, remark, say

LOW = 0.5  # of a share: below it even a better model is of little use; as R² is below 0
MUCH_CUT = 0.2
FEW_ROWS = 500


class Verdict(NamedTuple):
    """A judgement.

    Attributes:
        sentence: In words.
        style: ``good``, ``fair`` or ``bad``; the class of style that goes with it.
        notes: What else must be known to judge.
    """

    sentence: str
    style: str
    notes: list[str]


def judge(results: dict, code: str | None = None) -> Verdict:
    """Compare the last split's main score with that of the best baseline.

    Args:
        results: What is in ``metrics.json``.
        code: ``en`` or ``zh``; None for the user's language.
    """
    task, (split, scores) = get_task(results["task"]), list(results["splits"].items())[-1]
    main, baselines = task.main_score, results["baselines"]
    best = (min if main in task.falling else max)(baselines, key=lambda name: baselines[name][main])
    notes = [say(each, code) for each in _notes(task, results, split, baselines[best])]
    sentence, is_chance = _compared(task, scores, best, baselines[best])
    style = "bad" if task.is_worse(main, scores[main], baselines[best][main]) else "good"
    if is_chance or style == "good" and _is_low(task, scores):
        style = "fair"
    return Verdict(say(sentence, code), style, notes)


def give_advice(results: dict, code: str | None = None) -> list[str]:
    """What is wrong with the model, by the last split that was scored, and what to try; nothing if all is well.

    Args:
        results: What ``metrics.json`` is made of.
        code: ``en`` or ``zh``; None for the user's language.
    """
    task, (split, scores), found = get_task(results["task"]), list(results["splits"].items())[-1], []
    if (only := task.always(scores, results)) is not None:
        single = Message("The model predicts {label} for every row of {split}.")
        found.append([remark(single, label=only or remark("no class"), split=split)])
    for name, baseline in results["baselines"].items():
        if task.is_worse(task.main_score, scores[task.main_score], baseline[task.main_score]):
            found.append([remark("{sentence}.", sentence=_compared(task, scores, name, baseline)[0])])
    if found:
        found[-1].append(remark("Try {ideas}.", ideas=list(_ideas(results, task, only is not None))))
        if not results["model"]["pretrained"]:
            name, other = task.hub_models[results["language"]]
            weights = Message(
                "One line gets pretrained weights: --model {name} --mirror hf-mirror, or --model {other} --mirror "
                "modelscope."
            )
            found[-1].append(remark(weights, name=name, other=other))
    # A Chinese full stop needs no blank behind it.
    return [" ".join(say(each, code) for each in sentences).replace("。 ", "。") for sentences in found]


def rises_from(history: list[dict]) -> float | None:
    """The epoch from which on the loss on dev only rises, if it does for most of the training: overfitting."""
    losses = [(entry["epoch"], entry["eval_loss"]) for entry in history if "eval_loss" in entry]
    if len(losses) < 3:
        return None
    lowest = min(range(len(losses)), key=lambda place: losses[place][1])
    return losses[lowest][0] if 2 * (lowest + 1) <= len(losses) and losses[-1][1] > 1.05 * losses[lowest][1] else None


def _compared(task, scores, rival, baseline):
    """How far the main score is from a baseline's; and whether other rows could turn them around.

    They could within two standard errors.
    """
    main = task.main_score
    difference, error = scores[main] - baseline[main], scores.get("standard_error", 0.0)
    if abs(difference) < 5e-4:
        return remark("as good as {baseline}", baseline=remark(NAMES[rival])), True
    size = decimal(abs(difference))
    if main not in task.not_shares:
        size = remark("{points} points", points=abs(round(100 * difference, 1)))
    above, below = Message("{score}: {difference} above {baseline}"), Message("{score}: {difference} below {baseline}")
    known = {"score": remark(NAMES[main]), "difference": size, "baseline": remark(NAMES[rival])}
    found = remark(above if difference > 0 else below, **known)
    if abs(difference) > 2 * error:
        return found, False
    return remark("{sentence} (within chance for {rows} rows)", sentence=found, rows=scores["rows"]), True


def _is_low(task, scores):
    main = task.main_score
    return main not in task.falling and scores[main] < (0 if main in task.not_shares else LOW)


def _notes(task, results, split, baseline):
    main, scores = task.main_score, results["splits"][split]
    if _is_low(task, scores):
        low = Message("But {score} is only {value}: too little to rely on.")
        yield remark(low, score=remark(NAMES[main]), value=task.shown_score(main, scores[main]))
    if split != "dev":
        return
    if results["best"]:
        yield remark("dev chose the epoch and is scored: expect a little less on new texts, or give a test set.")
    each = [entry[f"eval_{main}"] for entry in results["history"] if f"eval_{main}" in entry]
    if each and not task.is_worse(main, scores[main], baseline[main]) and task.is_worse(main, each[-1], baseline[main]):
        peak = Message("Best of {count} epochs that go up and down; the last ends below the baseline, at {last}.")
        yield remark(peak, count=len(each), last=task.shown_score(main, each[-1]))


def _ideas(results, task, is_single):
    num_rows, best, rises = results["data"]["num_rows"]["train"], results["best"], rises_from(results["history"])
    is_last_best = bool(best) and best["epoch"] >= results["settings"]["epochs"]
    can_weigh = any(each.name == "class_weights" for each in fields_of(task.options(), task.name))
    if is_single and can_weigh and results["settings"].get("class_weights") != "balanced":
        yield remark("--class-weights balanced")
    if not results["model"]["pretrained"]:
        yield remark("a pretrained model")
    if is_last_best and rises is None:
        yield remark("more --epochs (the last was the best)")
    if results["data"]["cut_texts"]["train"] > MUCH_CUT * num_rows:
        yield remark("a larger --max-length (many texts are cut)")
    if num_rows < FEW_ROWS:
        yield remark("more rows")
    if rises is not None and not is_last_best:
        fewer = Message("fewer --epochs, or --patience 2 (overfitting: dev loss rises from epoch {epoch:g} on)")
        yield remark(fewer, epoch=rises)
    else:
        yield remark("another --learning-rate")
