"""MindNLP's Trainer as the core sees it: the ``Door`` of ``port.py``."""

from mindnlp.core.nn import functional, utils
from mindnlp.engine.trainer.base import Trainer

from mindnlp_dp_plugin.step import Clock
from mindnlp_dp_plugin.step.preemption import Preemption
from mindnlp_dp_plugin.trainers import either
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import dtype_of_training


class TrainerDoor(either.TrainerDoor):
    """A Trainer that is about to train.

    Args:
        trainer: The Trainer.
        clock: Where its loop stands.
        nominal_accumulation: See ``Door``.
        preemption: Signals that ask for the end of training; ranks vote on them.
    """

    utils, functional = utils, functional

    def __init__(self, trainer: Trainer, clock: Clock, nominal_accumulation: int, preemption: Preemption):
        super().__init__(trainer, clock, preemption)
        self.nominal_accumulation = nominal_accumulation
        self.dtype = dtype_of_training(trainer.args)
        self.may_call_backward_again = _overrides(trainer, "training_step")
        self.may_replace_gradients = self.may_call_backward_again or _overrides(
            trainer, "update_gradient_by_distributed_type"
        )

    def forget_parameters(self) -> None:
        """The Trainer rebuilds its function of gradients when it has none."""
        self._trainer.grad_fn = None


def _overrides(trainer, name):
    """Whether a subclass or the script replaced a method."""
    return getattr(getattr(trainer, name), "__func__", None) is not getattr(Trainer, name)
