"""Advice: what is wrong with a trained model, and what to try, one sentence each."""

from collections.abc import Callable

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import fields_of
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import is_within_chance, rises_from
from mindnlp_dp_plugin.recipes.words import named, remark, say

MUCH_CUT = 0.2
FEW_ROWS = 500


def give_advice(
    results: dict, code: str | None = None, shown: Callable[[str, float], str] = lambda name, value: f"{value:.3f}"
) -> list[str]:
    """Sentences about the last split that was scored, none if all is well.

    Args:
        results: What ``metrics.json`` is made of.
        code: ``en`` or ``zh``; None for the user's language.
        shown: Writes a score of a name.
    """
    split, task, found = list(results["splits"])[-1], get_task(results["task"]), []
    scores = results["splits"][split]
    if (only := task.always(scores, results)) is not None:
        single = Message("The model predicts {label} for every row of {split}.")
        found.append([remark(single, label=only or remark(Message("no class")), split=split)])
    for name, baseline in results["baselines"].items():
        if task.is_worse(task.main_score, scores[task.main_score], baseline[task.main_score]):
            found.append(list(_below(scores, baseline, task, name, split, shown, code)))
    if found:
        found[-1].append(remark(Message("Try {ideas}."), ideas=list(_ideas(results, task, only is not None))))
        if not results["model"]["pretrained"]:
            name, other = task.hub_models[results["language"]]
            weights = Message(
                "One line gets pretrained weights: --model {name} --mirror hf-mirror, or --model {other} --mirror "
                "modelscope."
            )
            found[-1].append(remark(weights, name=name, other=other))
    return [_in_a_row([say(each, code) for each in sentences]) for sentences in found]


def _below(scores, baseline, task, rival, split, shown, code):
    compared = []
    for name in task.shown:
        if task.is_worse(name, scores[name], baseline[name]):
            mine, theirs = shown(name, scores[name]), shown(name, baseline[name])
            compared.append(
                remark(Message("{name} {mine} against {theirs}"), name=named(name, code), mine=mine, theirs=theirs)
            )
    said = Message("Below {name} on {split}: {scores}.")
    if task.main_score in task.falling:
        said = Message("Worse than {name} on {split}: {scores}.")
    yield remark(said, name=named(rival, code), split=split, scores=compared)
    if is_within_chance(task, scores, baseline):
        yield remark(Message("This is within chance for {rows} rows."), rows=scores["rows"])


def _ideas(results, task, is_single):
    if is_single and any(each.name == "class_weights" for each in fields_of(task.options(), task.name)):
        yield remark(Message("--class-weights balanced"))
    if not results["model"]["pretrained"]:
        pretrained = Message("a pretrained model (--model {model}, or a folder)")
        yield remark(pretrained, model=task.known_models[results["language"]])
    if (best := results["best"]) and best["epoch"] >= results["settings"]["epochs"]:
        yield remark(Message("more --epochs (the last was the best)"))
    num_rows = results["data"]["num_rows"]["train"]
    if results["data"]["cut_texts"]["train"] > MUCH_CUT * num_rows:
        yield remark(Message("a larger --max-length (many texts are cut)"))
    if num_rows < FEW_ROWS:
        yield remark(Message("more rows"))
    if (epoch := rises_from(results["history"])) is not None:
        fewer = Message("fewer --epochs, or --patience 2 (overfitting: dev loss rises from epoch {epoch:g} on)")
        yield remark(fewer, epoch=epoch)
    else:
        yield remark(Message("another --learning-rate"))


def _in_a_row(sentences):
    """A Chinese full stop needs no blank behind it."""
    return " ".join(sentences).replace("。 ", "。")
