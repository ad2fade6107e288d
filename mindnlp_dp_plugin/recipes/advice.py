"""Advice: what is wrong with a trained model, and what to try, one sentence each."""

from collections.abc import Callable

from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import is_within_chance, rises_from
from mindnlp_dp_plugin.recipes.words import words as words_in

MUCH_CUT = 0.2
FEW_ROWS = 500


def give_advice(
    results: dict, language: str | None = None, shown: Callable[[str, float], str] = lambda name, value: f"{value:.3f}"
) -> list[str]:
    """Sentences about the last split that was scored, none if all is well.

    Args:
        results: What ``metrics.json`` is made of.
        language: ``en`` or ``zh``; None for the user's.
        shown: Writes a score of a name.
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
            found.append(_below(scores, baseline, task, words, name, split, shown))
    if found:
        ideas = words["and"].join(_ideas(results, task, words, weights=only is not None and task.weighs_classes))
        found[-1] = _after(found[-1], words["try"].format(ideas=ideas))
        if not results["model"]["pretrained"]:
            name, other = task.hub_models(results["language"])
            found[-1] = _after(found[-1], words["get_pretrained"].format(name=name, other=other))
    return found


def _below(scores, baseline, task, words, rival, split, shown):
    lower = [score for score in task.compared if task.is_worse(score, scores[score], baseline[score])]
    compared = words["and"].join(
        words["against"].format(
            name=words[score], mine=shown(score, scores[score]), theirs=shown(score, baseline[score])
        )
        for score in lower
    )
    sentence = words["worse" if task.falling else "below"].format(name=words[rival], split=split, scores=compared)
    if is_within_chance(task, scores, baseline):
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
    if (epoch := rises_from(results["history"])) is not None:
        return [*ideas, words["try_fewer"].format(epoch=epoch)]
    return [*ideas, words["try_rate"]]
