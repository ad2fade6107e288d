"""A learning rate's schedule that a script has made for one process's steps: ranks make fewer."""

import logging

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.trainers.observe.callback import Callback

logger = logging.getLogger(__name__)
LENGTHS = ("total_steps", "T_max")  # attributes of OneCycleLR and CosineAnnealingLR


class ScheduleLength(Callback):
    """Says so if a schedule is as many times too long as there are ranks.

    Args:
        collective: The ranks that train together.
    """

    def __init__(self, collective: Collective):
        self._collective = collective

    def on_train_begin(self, args, state, control, lr_scheduler=None, **kwargs):
        """The Trainer knows by now how many steps it makes."""
        ranks, length = self._collective.world_size, _length_of(lr_scheduler)
        if self._collective.rank == 0 and length and state.max_steps and 1 < ranks == round(length / state.max_steps):
            logger.warning(
                tr(
                    "The learning rate's schedule is made for {length} steps, and this training makes {steps}, as "
                    "{ranks} ranks share the rows: the rate ends where it should not. Make the schedule for "
                    "{steps} steps, or let the Trainer make it.",
                    length=length,
                    steps=state.max_steps,
                    ranks=ranks,
                )
            )


def _length_of(scheduler):
    """For how many steps it is made; None if it does not say."""
    factors = getattr(scheduler, "lr_lambdas", None) or [None]
    known = getattr(factors[0], "keywords", {}).get("num_training_steps")  # as of get_linear_schedule_with_warmup
    return known or next(filter(None, (getattr(scheduler, name, None) for name in LENGTHS)), None)
