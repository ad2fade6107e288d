"""Advice: what is wrong with a trained classifier, and what to try, one sentence each."""

import math

from mindnlp_dp_plugin.recipes.words import WORDS

MUCH_CUT = 0.2
FEW_ROWS = 500


def give_advice(results: dict, language: str = "en") -> list[str]:
    """Sentences about the last split that was scored, none if all is well.

    Args:
        results: What ``metrics.json`` is made of.
        language: ``en`` or ``zh``.
    """
    words = WORDS[language]
    split = list(results["splits"])[-1]
    scores = results["splits"][split]
    found = []
    if only := _single_prediction(scores, results["label_names"]):
        found.append(words["single"].format(label=only, split=split))
    for name, baseline in results["baselines"].items():
        if scores["macro_f1"] < baseline["macro_f1"]:
            found.append(_below(scores, baseline, words, name, split))
    if found:
        ideas = words["and"].join(_ideas(results, words, weights=only is not None))
        found[-1] += " " + words["try"].format(ideas=ideas)
    return found


def _single_prediction(scores, names):
    """The class that is predicted for all rows, if there is one."""
    counts = [sum(column) for column in zip(*scores["confusion_matrix"])]
    return names[counts.index(max(counts))] if sum(count > 0 for count in counts) == 1 else None


def _below(scores, baseline, words, name, split):
    lower = [score for score in ("accuracy", "macro_f1") if scores[score] < baseline[score]]
    compared = words["and"].join(
        words["against"].format(name=words[score], mine=f"{scores[score]:.3f}", theirs=f"{baseline[score]:.3f}")
        for score in lower
    )
    sentence = words["below"].format(name=words[name], split=split, scores=compared)
    num_rows = sum(each["rows"] for each in scores["per_class"])
    share = baseline["accuracy"]
    deviation = math.sqrt(max(share * (1 - share), 1e-4) / num_rows)
    if "accuracy" in lower and share - scores["accuracy"] < 2 * deviation:
        sentence += " " + words["within_chance"].format(rows=num_rows)
    return sentence


def _ideas(results, words, weights):
    ideas = [words["try_weights"]] if weights else []
    if not results["model"]["pretrained"]:
        known = "hfl/chinese-roberta-wwm-ext" if results["language"] == "zh" else "minilm"
        ideas.append(words["try_pretrained"].format(model=known))
    if (best := results["best"]) and best["epoch"] >= results["settings"]["epochs"]:
        ideas.append(words["try_epochs"])
    if results["data"]["cut_texts"]["train"] > MUCH_CUT * sum(results["data"]["rows"]["train"].values()):
        ideas.append(words["try_length"])
    if sum(results["data"]["rows"]["train"].values()) < FEW_ROWS:
        ideas.append(words["try_rows"])
    return [*ideas, words["try_rate"]]
