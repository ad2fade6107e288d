"""``average_over="auto"``: each micro-step's mean is that of one process with the batches of all ranks.

A loss is a mean over labels that are not -100, or over rows where there are none. So a rank's loss weighs what it
counts, over what all ranks count in the same micro-step. The counts of an optimizer step's batches are known before the
first of them is computed: they travel with the question that ranks ask each other before each step.

A run that goes on with fewer ranks, each with more micro-steps, takes several of them for one of the old. Where the old
number does not divide the new, a step's batches are weighed together.
"""

from collections.abc import Mapping, Sequence

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.labels import count_labels
from mindnlp_dp_plugin.step.padded_rows import PaddedRows
from mindnlp_dp_plugin.step.weights import Weights


class AutoWeights(Weights):
    """A micro-step weighs its share of what all ranks count in it.

    Args:
        door: The loop.
        collective: The ranks to average over.
    """

    looks_ahead = True

    def __init__(self, door: Door, collective: Collective):
        super().__init__(collective)
        self._door = door
        self._accumulation = door.accumulation
        self._before = door.nominal_accumulation
        self._counts, self._totals = AnnouncedCounts(), []
        self._place = -1
        self._padding = PaddedRows(door, collective)

    def announce(self, batches):
        """The batches up to the optimizer step, or to the end of the epoch."""
        self._counts, self._totals = AnnouncedCounts(batches, self._door), []
        self._padding.announce(batches)
        self._place = -1

    def to_send(self):
        """The counts of the batches that were announced, and how long their rows are."""
        return self._counts.padded(self._accumulation) + self._padding.to_send()

    def hear(self, totals):
        """What all ranks count in each of them, and how long their rows are together."""
        number = len(totals) // 2
        self._totals = list(totals[:number])
        self._padding.hear(totals[number:])

    def expects(self, batch):
        """Whether a batch is the next that was announced."""
        return self._counts.holds(self._place + 1, batch)

    def begin_micro_step(self):
        """The next batch that was announced."""
        self._place += 1

    def weigh(self, batch):
        """Hold a batch against what was announced.

        Raises:
            DataParallelError: If nothing was, or other labels.
        """
        if self._place >= len(self._counts):
            raise DataParallelError(
                "average_over='auto' counts what is read, but training_step got a batch that was not just read from "
                "train_dataset: pass on each batch once. Or choose average_over='ranks'."
            )
        return self._counts.found(self._place, batch) > 0

    def factor(self):
        """The weight of the micro-step, where 1 is that of each if all count alike."""
        return self._relative_weight(self._place) * self._before / self._accumulation

    @property
    def is_repeated(self):
        """Whether another rank has the batch, too."""
        return self._counts.is_repeated(self._place)

    @property
    def share(self):
        """That of this micro-step."""
        return self._relative_weight(self._place) / self._collective.world_size

    def recorded(self, loss):
        """The loss as far as this rank's rows make it."""
        if loss is None:
            return mindspore.tensor(0.0)
        weight = self._relative_weight(self._place)
        return loss if weight == 1 else loss * weight

    def require(self, is_weighed):
        """Raise if gradients that accumulate have no weight, and need one."""
        weights = [self._relative_weight(place) for place in range(len(self._counts))]
        if not is_weighed and (weights != [weights[0]] * len(weights) or self._before != self._accumulation):
            raise DataParallelError(
                "Ranks count different numbers of labels or rows in the micro-steps of a step, so "
                "average_over='auto' weighs each micro-step: an overridden training_step must call "
                "super().training_step(model, inputs). Or choose average_over='ranks'."
            )

    def _relative_weight(self, place):
        if not self._totals:
            return 1.0
        together = self._weighed_together(place)
        total, own = sum(self._totals[each] for each in together), self._counts[place]
        alike = own * len(together) * self._collective.world_size
        return 1.0 if alike == total else alike / total

    def _weighed_together(self, place):
        """The places of the micro-steps whose means are one mean."""
        num = len(self._counts)
        group, rest = divmod(self._accumulation, self._before)
        if rest:
            return range(num)
        first = place - place % group
        return range(first, min(first + group, num))


class AnnouncedCounts:
    """What the next batches count, and what they are when they come.

    Args:
        batches: These.
        door: The loop; None if nothing is to be counted but rows.
    """

    def __init__(self, batches: Sequence = (), door: Door | None = None):
        self._door = door
        of_labels = [self._count_labels(batch.columns) for batch in batches]
        self._of_labels = [count is not None for count in of_labels]
        self._counts = [
            0 if batch.is_repeated else _num_rows_of(batch.columns) or 1 if count is None else count
            for batch, count in zip(batches, of_labels)
        ]
        self._are_repeated = [batch.is_repeated for batch in batches]
        self._columns = [{id(column) for column in batch.columns.values()} for batch in batches]

    def __len__(self) -> int:
        return len(self._counts)

    def __getitem__(self, place: int) -> int:
        return self._counts[place]

    def padded(self, length: int) -> list[int]:
        """The counts, and 0 for batches that the epoch has no more."""
        return self._counts + [0] * (length - len(self._counts))

    def holds(self, place: int, batch: Mapping) -> bool:
        """Whether a batch is that of a place: they have columns in common."""
        return place < len(self._columns) and not self._columns[place].isdisjoint(map(id, batch.values()))

    def is_repeated(self, place: int) -> bool:
        """Whether another rank reads the batch, too."""
        return self._are_repeated[place]

    def found(self, place: int, batch: Mapping) -> int:
        """What a batch counts that is about to be computed.

        Raises:
            DataParallelError: If it has other labels than the batch that was read.
        """
        announced = self._counts[place]
        if self._are_repeated[place]:
            return announced
        found = self._count_labels(batch)
        if found is None and self._of_labels[place]:
            found = _num_rows_of(batch) or 1
        if found not in (None, announced):
            raise DataParallelError(
                "average_over='auto' counted {announced} in the batch that was read, but {found} in the one that "
                "training_step passes on: make labels in the data set or its collator. Or choose average_over='ranks'.",
                announced=announced,
                found=found,
            )
        return announced

    def _count_labels(self, batch):
        if self._door is None:
            return None
        return count_labels(batch, self._door.leaves_out, self._door.labels)


def _num_rows_of(columns) -> int | None:
    """The length of the first tensor or array that has rows, however deep it lies; None without one."""
    if isinstance(columns, (list, tuple, Mapping)):
        inner = columns.values() if isinstance(columns, Mapping) else columns
        return next((rows for rows in map(_num_rows_of, inner) if rows is not None), None)
    shape = getattr(columns, "shape", ())
    return shape[0] if len(shape) else None
