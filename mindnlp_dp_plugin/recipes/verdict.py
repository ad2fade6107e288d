"""What a score is worth beside that of a baseline: how far it is above chance, how high, and how it was come by."""

from typing import NamedTuple

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.scores import decimal
from mindnlp_dp_plugin.recipes.words import named, remark, say

LOW = 0.5  # of a share: below it even a better model is of little use


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


def is_within_chance(task, scores: dict, baseline: dict) -> bool:
    """Whether the main scores differ by no more than two standard errors: other rows could turn them around."""
    difference = scores[task.main_score] - baseline[task.main_score]
    return abs(difference) <= 2 * scores.get("standard_error", 0.0)


def judge(task, results: dict, code: str | None = None) -> Verdict:
    """Compare the last split's main score with that of the best baseline.

    Args:
        task: What was learnt.
        results: What is in ``metrics.json``.
        code: ``en`` or ``zh``; None for the user's language.
    """
    *_, (split, scores) = results["splits"].items()
    main, baselines = task.main_score, results["baselines"]
    best = (min if main in task.falling else max)(baselines, key=lambda name: baselines[name][main])
    notes = [say(each, code) for each in _notes(task, results, split, baselines[best], code)]
    difference = scores[main] - baselines[best][main]
    rival = named(best, code)
    if abs(difference) < 5e-4:
        return Verdict(say(remark(Message("as good as {baseline}"), baseline=rival), code), "fair", notes)
    size = decimal(abs(difference))
    if main not in task.not_shares:
        size = remark(Message("{points} points"), points=abs(round(100 * difference, 1)))
    above, below = Message("{score}: {difference} above {baseline}"), Message("{score}: {difference} below {baseline}")
    found = remark(above if difference > 0 else below, score=named(main, code), difference=size, baseline=rival)
    if is_within_chance(task, scores, baselines[best]):
        found = remark(Message("{sentence} (within chance for {rows} rows)"), sentence=found, rows=scores["rows"])
        return Verdict(say(found, code), "fair", notes)
    is_worse, is_low = task.is_worse(main, difference, 0), _is_low(task, scores)
    return Verdict(say(found, code), "bad" if is_worse else "fair" if is_low else "good", notes)


def _is_low(task, scores):
    return task.main_score not in task.not_shares and scores[task.main_score] < LOW


def _notes(task, results, split, baseline, code):
    main, scores = task.main_score, results["splits"][split]
    if _is_low(task, scores):
        low = Message("{score} of {value} is low all the same: most is still wrong.")
        yield remark(low, score=named(main, code), value=task.shown_score(main, scores[main]))
    if split != "dev":
        return
    if results["best"]:
        yield remark(
            Message("dev chose the epoch and is scored: expect a little less on new texts, or give a test set.")
        )
    each = [entry[f"eval_{main}"] for entry in results["history"] if f"eval_{main}" in entry]
    if each and not task.is_worse(main, scores[main], baseline[main]) and task.is_worse(main, each[-1], baseline[main]):
        peak = Message("Best of {count} epochs that go up and down; the last ends below the baseline, at {last}.")
        yield remark(peak, count=len(each), last=task.shown_score(main, each[-1]))


def rises_from(history: list[dict]) -> float | None:
    """The epoch from which on the loss on dev only rises, if it does for most of the training: overfitting."""
    losses = [(entry["epoch"], entry["eval_loss"]) for entry in history if "eval_loss" in entry]
    if len(losses) < 3:
        return None
    lowest = min(range(len(losses)), key=lambda place: losses[place][1])
    return losses[lowest][0] if 2 * (lowest + 1) <= len(losses) and losses[-1][1] > 1.05 * losses[lowest][1] else None
