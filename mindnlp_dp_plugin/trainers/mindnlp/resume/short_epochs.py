"""Epochs that are no longer than the accumulation, in a run that resumes.

Without this such a run steps after other micro-steps than one that never stopped: MindNLP's loop counts micro-steps
from 0 again when it resumes, and misses the end of the epoch that it has resumed in the middle of. Its rule is written
in the loop, ``count % args.gradient_accumulation_steps == 0``; the argument is all that can be given to it.
"""

from mindnlp_dp_plugin.checkpoint.record import Position


class AccumulationGoesOn(int):
    """An accumulation by which ``count %`` is 0 where training would have stepped had it never stopped.

    Args:
        accumulation: The number of micro-steps.
        position: Where the checkpoint stands.
        num_steps: Micro-steps of an epoch, no more than ``accumulation``.
    """

    def __new__(cls, accumulation: int, position: Position, num_steps: int):
        """As of an int."""
        self = super().__new__(cls, accumulation)
        self._made = position.micro_steps
        self._epoch_ends_after = num_steps - position.micro_steps_in_epoch
        return self

    def __rmod__(self, count):
        """``count % self``, of the count since training first began; 0 at the end of the resumed epoch."""
        return 0 if count == self._epoch_ends_after else (self._made + count) % int(self)
