"""What ranks tell each other of batches before they compute them: it travels with what they ask each other anyway."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.port import Announced, Clock
from mindnlp_dp_plugin.step.stepped import SteppedParameters


class Announcements:
    """The batches that follow, announced to those who weigh them.

    Args:
        weights: Weighs the ranks' losses.
        stepped: Asks the ranks what an optimizer step begins with.
        clock: Where the loop is.
    """

    def __init__(self, weights: Any, stepped: SteppedParameters, clock: Clock):
        self._weights, self._stepped, self._clock = weights, stepped, clock
        self._has_news = False

    def read(self, batches: Iterable, dataset: ShardedDataset) -> Iterator:
        """This rank's batches of training, those of an optimizer step read before the first of them is computed.

        All ranks must read them in step.

        Args:
            batches: What is read.
            dataset: Says whether another rank reads the same.
        """
        batches = iter(batches)
        window: deque = deque()
        began_at = None
        while True:
            if not window or (self._clock.begins_optimizer_step and self._clock.micro_steps != began_at):
                began_at = self._clock.micro_steps
                if ahead := self._read_ahead(batches, dataset, len(window)):
                    window.extend(ahead)
                    self.announce(window)
            if not window:
                return
            batch = window.popleft()
            dataset.is_repeated = batch.is_repeated  # of this one, though others were read ahead
            yield batch.columns

    def expects(self, batch: Any) -> bool:
        """Whether a batch was announced as the next."""
        return self._weights.expects(batch)

    def announce(self, batches: Sequence[Announced]) -> None:
        """These batches follow: what they count travels with what ranks ask each other next. All ranks must call it."""
        self._weights.announce(batches)
        self._has_news = True

    def ask(self) -> None:
        """Ask all ranks what an optimizer step begins with, and let the counts of its batches travel along."""
        news = (self._weights.to_send(), self._weights.hear) if self._has_news else ()
        self._has_news = False
        if self._clock.begins_optimizer_step:
            self._stepped.ask(*news)
        elif news and news[0]:
            self._stepped.send(*news)

    def _read_ahead(self, batches, dataset, num_read):
        """The batches that an optimizer step needs beside those that were read; without any, the epoch is over."""
        num = self._clock.micro_steps_left if self._weights.looks_ahead else 1
        return [Announced(batch, dataset.is_repeated) for batch in islice(batches, max(0, num - num_read))]
