"""What a score is worth beside that of a baseline: how far it is above chance, how high, and how it was come by."""

from typing import NamedTuple

from mindnlp_dp_plugin.recipes.scores import decimal

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


def judge(task, results: dict, words: dict[str, str]) -> Verdict:
    """Compare the last split's main score with that of the best baseline.

    Args:
        task: What was learnt.
        results: What is in ``metrics.json``.
        words: Of the report's language.
    """
    *_, (split, scores) = results["splits"].items()
    main, baselines = task.main_score, results["baselines"]
    best = (min if main in task.falling else max)(baselines, key=lambda name: baselines[name][main])
    notes = _notes(task, results, split, scores, baselines[best], words)
    difference = scores[main] - baselines[best][main]
    size = decimal(abs(difference))
    if main not in task.not_shares:
        size = words["points"].format(points=abs(round(100 * difference, 1)))
    if abs(difference) < 5e-4:
        return Verdict(words["equal"].format(baseline=words[best]), "fair", notes)
    sentence = words["higher" if difference > 0 else "lower"]
    sentence = sentence.format(score=words[main], difference=size, baseline=words[best])
    if is_within_chance(task, scores, baselines[best]):
        return Verdict(words["chance"].format(sentence=sentence, rows=scores["rows"]), "fair", notes)
    if task.is_worse(main, difference, 0):
        return Verdict(sentence, "bad", notes)
    return Verdict(sentence, "fair" if _is_low(task, scores) else "good", notes)


def _is_low(task, scores):
    return task.main_score not in task.not_shares and scores[task.main_score] < LOW


def _notes(task, results, split, scores, baseline, words):
    notes, main = [], task.main_score
    if _is_low(task, scores):
        notes.append(words["low"].format(score=words[main], value=task.shown_score(main, scores[main])))
    if split == "dev" and results["best"]:
        notes.append(words["dev_chose"])
    each = [entry[f"eval_{main}"] for entry in results["history"] if f"eval_{main}" in entry]
    is_better = not task.is_worse(main, scores[main], baseline[main])
    below = [score for score in each if task.is_worse(main, score, baseline[main])]
    if split == "dev" and is_better and below and below[-1] == each[-1]:
        notes.append(words["one_peak"].format(count=len(each), last=task.shown_score(main, each[-1])))
    return notes


def rises_from(history: list[dict]) -> float | None:
    """The epoch from which on the loss on dev only rises, if it does for most of the training: overfitting."""
    losses = [(entry["epoch"], entry["eval_loss"]) for entry in history if "eval_loss" in entry]
    if len(losses) < 3:
        return None
    lowest = min(range(len(losses)), key=lambda place: losses[place][1])
    return losses[lowest][0] if 2 * (lowest + 1) <= len(losses) and losses[-1][1] > 1.05 * losses[lowest][1] else None
