"""Sum numbers over the ranks, and count answers to yes-or-no questions, without waiting at once."""

from collections.abc import Sequence

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class Vote:
    """Sums numbers over the ranks; of answers, the sum counts those that are yes.

    All ranks must create it, in the same order of collectives.

    Args:
        answers: This rank's numbers and answers; as many on all ranks. Whole numbers are exact up to 2**24 in sum.
        collective: The ranks to ask.
    """

    def __init__(self, answers: Sequence[float], collective: Collective):
        answers = np.array(answers, np.float32)
        self._sum = answers if collective.uses_numpy else mindspore.Tensor(answers)
        self._work = collective.all_reduce(self._sum)

    def count(self) -> list[float]:
        """Wait for all, and return the sums."""
        self._work.wait()
        return [float(number) for number in np.asarray(self._sum)]
