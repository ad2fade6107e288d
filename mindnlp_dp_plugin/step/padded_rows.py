"""Names rows that ranks pad to other lengths, in a model that may read padding: one process pads them alike."""

import logging
import math
from collections.abc import Mapping, Sequence

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.port import Announced, Door
from mindnlp_dp_plugin.step.left_out import FIRST

logger = logging.getLogger(__name__)


class PaddedRows:
    """How long the rows of a step's batches are, on this rank and on the others.

    Args:
        door: The loop.
        collective: The ranks that train together.
    """

    def __init__(self, door: Door, collective: Collective):
        self._door, self._num_ranks, self._most = door, collective.world_size, door.accumulation
        self._lengths, self._has_told = [0] * self._most, False

    def announce(self, batches: Sequence[Announced]) -> None:
        """These are the batches of a step, or up to the end of the epoch."""
        found = [_length_without_mask(batch.columns, self._door) for batch in batches]
        self._lengths = found + [0] * (self._most - len(found))

    def to_send(self) -> list[int]:
        """Numbers in a row of each, 0 where no padding is read; as many on all ranks."""
        return self._lengths

    def hear(self, totals: Sequence[float]) -> None:
        """Say so, once, if ranks have rows of other lengths.

        Args:
            totals: What all ranks have sent, summed.
        """
        for mine, of_all in zip(self._lengths, totals):
            if of_all not in (0, self._num_ranks * mine) and not self._has_told:
                self._has_told = True
                logger.warning(
                    tr(
                        "Each rank pads its batch to its own longest row ({mine} numbers here, {others:g} on the "
                        "others), and no column is a mask. A model that reads padding then trains otherwise than one "
                        "process: give it an attention_mask, or pad to a fixed length.",
                        mine=mine,
                        others=(of_all - mine) / (self._num_ranks - 1),
                    )
                )


def _length_without_mask(columns, door):
    """How many numbers a row has; 0 if a mask tells padding from tokens, or the model looks at none behind a token."""
    if not isinstance(columns, Mapping) or door.leaves_out == FIRST or any("mask" in name for name in columns):
        return 0
    shapes = [getattr(column, "shape", ()) for column in columns.values()]
    return sum(math.prod(shape[1:]) for shape in shapes if len(shape) > 1)
