"""The mean over all that comes together in one optimizer step, where each micro-step of a rank has a count of its own.

Wanted is ``sum(count * mean) / sum(count)`` over ranks and micro-steps, of gradients and losses alike; with counts of
tokens this is what the Hugging Face Trainer calls ``num_items_in_batch``. Micro-steps add up on a rank before the sum
of counts can be known, so they get weights that the rank knows at once: at most 1 / ``gradient_accumulation_steps``.
What accumulates is then no larger than a mean, and float16 does not overflow where one process with all rows in one
batch would not. The rest is one factor per rank, which the buckets apply in float32.
"""

from collections.abc import Callable

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class WeightedMean:
    """One rank's side of the mean.

    Each micro-step: ``weigh``, backward on the loss times that weight, ``record_loss``. Where gradients are averaged,
    they are multiplied by what ``sum_counts``, called before backward, returns. ``reset`` when the optimizer has
    stepped.

    Args:
        parameters: What accumulates gradients on this rank.
        collective: The ranks to average over.
        accumulation: How many micro-steps an optimizer step takes, at most.
        counts_may_differ: Whether ranks may count differently. If not, nothing is sent.

    Attributes:
        parameters: The same; another list may be set between two micro-steps.
    """

    def __init__(self, parameters, collective: Collective, accumulation: int, counts_may_differ: bool):
        self.parameters = parameters
        self._collective = collective
        self._accumulation = accumulation
        self._counts_may_differ = counts_may_differ
        self.reset()

    def reset(self) -> None:
        """Nothing has come together yet."""
        self._count = 0.0  # of this rank; once gradients are averaged, its equal part of all ranks' count
        self._unit = 0.0  # what a weight of 1 stands for
        self._total = None  # of all ranks, once gradients are averaged
        self._sum_of_losses = self._recorded = 0.0

    def weigh(self, count: float) -> float:
        """The factor for a micro-step's loss. Gradients that accumulated before are scaled down where it needs to be.

        Args:
            count: How many rows or tokens the micro-step's loss is a mean of.
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
        """The factor for another loss of the same rows or tokens, once the gradients of the first are averaged."""
        self._share_equally()
        return self._latest_count / self._unit if self._latest_count else 0.0

    def sum_counts(self) -> Callable[[], float]:
        """Start to sum the counts over the ranks. To be called on all ranks.

        Returns:
            What waits for the sum and returns the share: what to multiply this rank's gradients by, so that their sum
            over the ranks is the mean.
        """
        if not self._counts_may_differ:
            self._total = self._count * self._collective.world_size
            return self._share
        counted = np.array([self._count], np.float32)
        buffer = counted if self._collective.uses_numpy else mindspore.Tensor(counted)
        work = self._collective.all_reduce(buffer)

        def share():
            work.wait()
            self._total = float(buffer[0])
            return self._share()

        return share

    def record_loss(self, loss: float) -> float:
        """What to add to this rank's sum of losses, for the sums' mean over the ranks to be the mean that is wanted.

        In the last micro-step of an optimizer step this makes up for the others, in which the sum of counts was not
        known: there it is the loss / ``accumulation``, as in MindNLP's Trainer.

        Args:
            loss: The mean over the micro-step.
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
        """Gradients that were averaged are the same on all ranks: should more come, all own equal parts of them."""
        if self._total is not None:
            self._count = self._unit = self._total / self._collective.world_size
            self._total = None

    def _share(self):
        return self._unit / self._total if self._total else 0.0
