"""Ask all ranks a yes-or-no question without waiting for the answer at once."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class Poll:
    """Counts the ranks that answer yes. All ranks must create it, in the same order of collectives.

    Args:
        answer: This rank's answer.
        collective: The ranks to ask.
    """

    def __init__(self, answer: bool, collective: Collective):
        answers = np.array([answer], np.float32)
        self._sum = answers if collective.uses_numpy else mindspore.Tensor(answers)
        self._work = collective.all_reduce(self._sum)

    def count(self) -> int:
        """Wait for all answers, and return how many ranks said yes."""
        self._work.wait()
        return round(float(self._sum[0]))
