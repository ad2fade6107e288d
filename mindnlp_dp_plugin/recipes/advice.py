"""Advice: what is wrong with a trained model, and what to try, one sentence each."""

import math

from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import words as words_in

MUCH_CUT = 0.2
FEW_ROWS = 500


def give_advice(results: dict, language: str | None = None) -> list[str]:
    """Sentences about the last split that was scored, none if all is well.

    Args:
        results: What ``metrics.json`` is made of.
        language: ``en`` or ``zh``; None for the user's.
    """
    words = words_in(language)
    split = list(results["splits"])[-1]
    scores = results["splits"][split]
    found = []
    task = get_task(results["task"])
    if (only := task.always(scores, results)) is not None:
        found.append(words["single"].format(label=only or words["no_class"], split=split))
    for name, baseline in results["baselines"].items():
        if task.is_worse(task.main_score, scores[task.main_score], baseline[task.main_score]):
            found.append(_below(scores, baseline, task, words, name, split))
    if found:
        ideas = words["and"].join(_ideas(results, task, words, weights=only is not None and task.weighs_classes))
        found[-1] = _after(found[-1], words["try"].format(ideas=ideas))
    return found


def _below(scores, baseline, task, words, name, split):
    lower = [score for score in task.compared if task.is_worse(score, scores[score], baseline[score])]
    compared = words["and"].join(
        words["against"].format(name=words[score], mine=f"{scores[score]:.3f}", theirs=f"{baseline[score]:.3f}")
        for score in lower
    )
    sentence = words["worse" if task.falling else "below"].format(name=words[name], split=split, scores=compared)
    if "accuracy" in lower:
        share = baseline["accuracy"]
        deviation = math.sqrt(max(share * (1 - share), 1e-4) / scores["rows"])
        if share - scores["accuracy"] < 2 * deviation:
            sentence = _after(sentence, words["within_chance"].format(rows=scores["rows"]))
    return sentence


def _after(sentence, other):
    """Two sentences; a Chinese full stop needs no blank behind it."""
    return sentence + other if sentence.endswith("。") else f"{sentence} {other}"


def _ideas(results, task, words, weights):
    ideas = [words["try_weights"]] if weights else []
    if not results["model"]["pretrained"]:
        ideas.append(words["try_pretrained"].format(model=task.known_model(results["language"])))
    if (best := results["best"]) and best["epoch"] >= results["settings"]["epochs"]:
        ideas.append(words["try_epochs"])
    num_rows = results["data"]["num_rows"]["train"]
    if results["data"]["cut_texts"]["train"] > MUCH_CUT * num_rows:
        ideas.append(words["try_length"])
    if num_rows < FEW_ROWS:
        ideas.append(words["try_rows"])
    return [*ideas, words["try_rate"]]
