"""Hugging Face's Trainer as the core sees it: the ``Door`` of ``port.py``."""

from mindtorch.nn import functional, utils
from transformers import Trainer

from mindnlp_dp_plugin.step.preemption import Preemption
from mindnlp_dp_plugin.trainers import either


class TrainerClock:
    """Whether the optimizer steps next, the Trainer tells its accelerator before each micro-step.

    Args:
        trainer: The Trainer.
        micro_steps: Micro-steps done before this run.

    Attributes:
        micro_steps: Micro-steps done since training first began.
        begins_optimizer_step: Whether the current or next micro-step is the first of an optimizer step.
        micro_steps_left: Nobody asks: what counts, the Trainer counts itself.
    """

    micro_steps_left = 1

    def __init__(self, trainer: Trainer, micro_steps: int):
        self._trainer = trainer
        self.micro_steps = micro_steps
        self.begins_optimizer_step = True

    @property
    def optimizer_steps_next(self) -> bool:
        """Whether the optimizer steps after the current micro-step."""
        return self._trainer.accelerator.sync_gradients

    def end_micro_step(self) -> None:
        """Count."""
        self.micro_steps += 1
        self.begins_optimizer_step = self.optimizer_steps_next


class TrainerDoor(either.TrainerDoor):
    """A Trainer that is about to train; accelerate casts what forward computes in."""

    utils, functional = utils, functional
    weighs_losses = True

    def __init__(self, trainer: Trainer, clock: TrainerClock, preemption: Preemption):
        super().__init__(trainer, clock, preemption)
        self.may_call_backward_again = self.may_replace_gradients = (
            getattr(trainer.training_step, "__func__", None) is not Trainer.training_step
        )

    @property
    def optimizer(self):
        """The one that steps, within accelerate's."""
        return getattr(self._trainer.optimizer, "optimizer", self._trainer.optimizer)

    def forget_parameters(self) -> None:
        """MindNLP builds its function of gradients anew when the Trainer has none."""
        vars(self._trainer).pop("grad_fn", None)
