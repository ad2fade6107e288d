"""A toy task: how large the share of capital letters in a text is. All there is to it is this file and its template."""

from dataclasses import dataclass

import numpy as np

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import RecipeOptions, option
from mindnlp_dp_plugin.recipes.tables import read_rows
from mindnlp_dp_plugin.recipes.tasks import Task


@dataclass(frozen=True)
class Options(RecipeOptions):
    """Those of all recipes, and one more."""

    loud: float = option(0.5, "From which share of capitals on a text shouts.")


class Shouting(Task):
    """One number for each text."""

    name = "shouting"
    options = Options
    distribution = Message("Texts that shout")
    names = {"capitals": Message("error of capitals"), "never": Message("nobody shouts")}
    shown = falling = not_shares = best_by = ("capitals",)

    def labelled(self, options):
        return read_rows(options, as_label=float).labelled()

    def facts(self, data, options):
        loud = {split: sum(label >= options.loud for label in rows["label"]) for split, rows in data.splits.items()}
        return {"loud": options.loud, "rows": {split: {"loud": loud[split]} for split in loud}}

    def predict_baselines(self, train, scored, data, options):
        return {"never": [0.0] * len(scored)}

    def choose(self, logits, labels, kept):
        return logits.reshape(-1), labels

    def compare(self, predicted, labels, kept):
        return {"capitals": float(np.abs(np.array(predicted) - np.array(labels)).mean())}

    def head(self, kept):
        return {"num_labels": 1}

    def read_label(self, cell, kept):
        return float(cell)

    def predictions(self, logits, kept, all_probabilities):
        return {"label": logits.reshape(-1).tolist()}


TASK = Shouting()
