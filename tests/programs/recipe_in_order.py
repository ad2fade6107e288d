"""A recipe that reads its rows in the order of the file: ``recipe_in_order.py TASK OPTIONS``, its options as JSON.

One process draws another order than several do, so that only this can be compared. Rows to evaluate come in batches of
one size: the loss of an evaluation is a mean over rows of what models make of each batch, a mean over its labels.
"""

import sys

from mindnlp_dp_plugin.recipes.prepared import PreparedData
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.training import train

EVALUATED = 4  # rows

shuffled = PreparedData.pipeline


def in_order(self, split, batch_size, shuffle=False, rows=None, packing=False):
    """The pipeline of ``PreparedData``, never shuffled."""
    return shuffled(self, split, batch_size if split == "train" else EVALUATED, rows=rows, packing=packing)


PreparedData.pipeline = in_order
_, task, options = sys.argv
train(get_task(task).options.from_json(options), task)
