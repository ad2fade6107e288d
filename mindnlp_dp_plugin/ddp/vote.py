"""Ask all ranks yes-or-no questions without waiting for the answers at once."""

from collections.abc import Sequence

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class Vote:
    """Counts the ranks that answer yes. All ranks must create it, in the same order of collectives.

    Args:
        answers: This rank's answers; as many on all ranks.
        collective: The ranks to ask.
    """

    def __init__(self, answers: Sequence[bool], collective: Collective):
        answers = np.array(answers, np.float32)
        self._sum = answers if collective.uses_numpy else mindspore.Tensor(answers)
        self._work = collective.all_reduce(self._sum)

    def count(self) -> list[int]:
        """Wait for all answers, and return how many ranks said yes to each question."""
        self._work.wait()
        return [round(float(number)) for number in np.asarray(self._sum)]
