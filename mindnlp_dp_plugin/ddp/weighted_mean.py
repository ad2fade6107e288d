"""A weighted mean over the micro-steps and ranks of one optimizer step, each with its own count.

The mean is ``sum(count * mean) / sum(count)`` over ranks and micro-steps, for gradients and losses; with counts of
tokens the Hugging Face Trainer calls it ``num_items_in_batch``. Micro-steps accumulate on a rank before the sum of
counts is known, so they get weights the rank knows at once: at most 1 / ``gradient_accumulation_steps``. What
accumulates is then no larger than a mean, so float16 overflows no earlier than in one process. The rest is one factor
per rank, which the buckets apply in float32.
"""

from collections.abc import Callable

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class WeightedMean:
    """One rank's part of the mean.

    Each micro-step: ``weigh``, backward on the loss times that weight, ``record_loss``. If gradients are averaged, they
    are multiplied by the factor that ``sum_counts``, called before backward, returns. ``reset`` after the optimizer
    step.

    Args:
        parameters: The parameters that accumulate gradients on this rank.
        collective: The ranks to average over.
        accumulation: The largest number of micro-steps in an optimizer step.
        counts_may_differ: Whether ranks may count differently. If not, nothing is sent.

    Attributes:
        parameters: The same; may be set between two micro-steps.
    """

    def __init__(self, parameters, collective: Collective, accumulation: int, counts_may_differ: bool):
        self.parameters = parameters
        self._collective = collective
        self._accumulation = accumulation
        self._counts_may_differ = counts_may_differ
        self.reset()

    def reset(self) -> None:
        """Start a new mean."""
        self._count = 0.0  # of this rank; once gradients are averaged, an equal part of all ranks' count
        self._unit = 0.0  # the count that has weight 1
        self._total = None  # of all ranks, once gradients are averaged
        self._sum_of_losses = self._recorded = 0.0

    def weigh(self, count: float) -> float:
        """The factor for a micro-step's loss. Scales down gradients that accumulated before, if needed.

        Args:
            count: Number of rows or tokens in the mean that is the micro-step's loss.
        """
        self._latest_count = count
        self._share_equally()
        self._count += count
        unit = count * self._accumulation
        if unit > self._unit:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * (self._unit / unit)
            self._unit = unit
        return count / self._unit if count else 0.0

    def weigh_again(self) -> float:
        """The factor for a second loss of the same rows or tokens, after the first's gradients are averaged."""
        self._share_equally()
        return self._latest_count / self._unit if self._latest_count else 0.0

    def sum_counts(self) -> Callable[[], float]:
        """Start to sum the counts over the ranks. All ranks must call it.

        Returns:
            A function that waits for the sum and returns this rank's factor: the factor for its gradients that makes
            their sum over the ranks the mean.
        """
        if not self._counts_may_differ:
            self._total = self._count * self._collective.world_size
            return self._factor
        counted = np.array([self._count], np.float32)
        buffer = counted if self._collective.uses_numpy else mindspore.Tensor(counted)
        work = self._collective.all_reduce(buffer)

        def factor():
            work.wait()
            self._total = float(buffer[0])
            return self._factor()

        return factor

    def record_loss(self, loss: float) -> float:
        """What to add to this rank's sum of losses, so that the mean of the ranks' sums is the weighted mean.

        Usually this is loss / ``accumulation``, as in MindNLP's Trainer. The last micro-step of an optimizer step, in
        which the sum of counts is known, corrects the earlier ones.

        Args:
            loss: The micro-step's mean loss.
        """
        self._sum_of_losses += self._latest_count * loss
        if self._total is None:
            recorded = loss / self._accumulation
        else:
            mean = self._sum_of_losses / self._total * self._collective.world_size if self._total else 0.0
            recorded = mean - self._recorded
        self._recorded += recorded
        return recorded

    def _share_equally(self):
        """Averaged gradients are equal on all ranks: if more follow, each rank owns an equal part of them."""
        if self._total is not None:
            self._count = self._unit = self._total / self._collective.world_size
            self._total = None

    def _factor(self):
        return self._unit / self._total if self._total else 0.0
