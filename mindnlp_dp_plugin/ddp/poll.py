"""A question to all ranks whose answer travels while they go on."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class Poll:
    """On how many ranks something is so. To be made on all ranks, in the same order of collectives.

    Args:
        answer: Whether it is so on this rank.
        collective: The ranks to ask.
    """

    def __init__(self, answer: bool, collective: Collective):
        answers = np.array([answer], np.float32)
        self._sum = answers if collective.uses_numpy else mindspore.Tensor(answers)
        self._work = collective.all_reduce(self._sum)

    def count(self) -> int:
        """Wait for the answers of all ranks, and count those that said yes."""
        self._work.wait()
        return round(float(self._sum[0]))
