"""Go on with the end of an epoch, if that is all a checkpoint left of it.

MindNLP saves the last step of an epoch before the epoch's own logging and evaluation. A run that resumes from there
reads no row of that epoch, and does what comes at its end. Without this it would then stop for good, and warn that the
data set is empty: so MindNLP's loop takes an epoch in which it has read no row.
"""

import logging

from mindnlp.engine.callbacks import TrainerCallback
from mindnlp.engine.trainer import base

from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.mindnlp.resume.position import Resumption


class EndOfEpoch(TrainerCallback):
    """Lets training go on after the first epoch of a resumed run, though MindNLP's loop found no row in it.

    Args:
        resumption: What the run resumes from.
        patches: Restores what MindNLP says of an epoch without rows.
    """

    def __init__(self, resumption: Resumption, patches: Patches):
        self._resumption = resumption
        self._is_first_epoch, self._has_read = True, False
        logger = logging.getLogger(base.__name__)
        patches.replace(logger, "filters", [*logger.filters, self._is_true])

    def on_step_begin(self, args, state, control, **kwargs):
        """There was a row."""
        self._has_read = True

    def on_epoch_end(self, args, state, control, **kwargs):
        """Stop only if training is over."""
        if self._is_first_epoch and not self._has_read:
            control.should_training_stop = self._resumption.is_over
        self._is_first_epoch = False

    def _is_true(self, record):
        return not (self._is_first_epoch and "not a single sample" in record.getMessage())
