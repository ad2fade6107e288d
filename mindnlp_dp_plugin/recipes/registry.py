"""The recipes there are. A task is registered here by one row; the rest of it is one file and one template.

Imports nothing, so that ``mindnlp-dp recipe --help`` answers at once.
"""

from typing import NamedTuple


class Recipe(NamedTuple):
    """A recipe's row.

    Attributes:
        summary: Its line of help.
        task: The recipe that has the name of its task.
        module: The file of the task; unless given, the one in ``tasks`` that is called like it.
        model: Trained unless another is named; a recipe with one makes up reviews unless data are named. None: the task
            chooses.
    """

    summary: str
    task: str = ""
    module: str = ""
    model: str | None = None


RECIPES = {
    "roberta-imdb": Recipe(
        "RoBERTa on film reviews; generated ones and a small model, unless --dataset and --model are given.",
        task="classification",
        model="small-roberta",
    ),
    "bert-imdb": Recipe("The same with BERT.", task="classification", model="small-bert"),
    "classification": Recipe("Texts, or pairs of texts, with labels of your own; two classes or many."),
    "multi-label": Recipe("Texts, or pairs of texts, with any number of labels each: topics, emotions."),
    "token-classification": Recipe(
        "A tag for each word: names of persons, places and other entities, from CoNLL files or jsonl."
    ),
    "causal-lm": Recipe(
        "Conversations in jsonl: a language model such as GPT-2 or Qwen2 learns the assistant's answers."
    ),
    "regression": Recipe("Texts, or pairs of texts, with a number for each: a rating, a similarity."),
}
