"""Hugging Face's Trainer as the core sees it: the ``Door`` of ``port.py``."""

from mindtorch.nn import functional, utils
from transformers import Trainer

from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.labels import name_of_labels
from mindnlp_dp_plugin.step.left_out import left_out
from mindnlp_dp_plugin.step.preemption import Preemption


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


class TrainerDoor(Door):
    """A Trainer that is about to train; accelerate casts what forward computes in.

    Args:
        trainer: The Trainer.
        clock: Where its loop stands.
        preemption: Signals that ask for the end of training; ranks vote on them.
    """

    utils, functional = utils, functional
    weighs_losses = True

    def __init__(self, trainer: Trainer, clock: TrainerClock, preemption: Preemption):
        self._trainer = trainer
        self.clock = clock
        self.name = type(trainer).__name__
        self.seed = trainer.args.seed
        self.accumulation = self.nominal_accumulation = trainer.args.gradient_accumulation_steps
        self.may_call_backward_again = self.may_replace_gradients = (
            getattr(trainer.training_step, "__func__", None) is not Trainer.training_step
        )
        self.labels = name_of_labels(trainer.args.label_names)
        self.votes, self.count = preemption.votes, preemption.count

    @property
    def model(self):
        """The Trainer's, unwrapped."""
        return self._trainer.model

    @property
    def optimizer(self):
        """The one that steps, within accelerate's."""
        return getattr(self._trainer.optimizer, "optimizer", self._trainer.optimizer)

    @property
    def num_steps(self) -> int:
        """Optimizer steps, as the Trainer counts them."""
        return self._trainer.state.global_step

    @property
    def leaves_out(self) -> str | None:
        """Those that the model leaves out."""
        return left_out(self.model)

    def forget_parameters(self) -> None:
        """MindNLP builds its function of gradients anew when the Trainer has none."""
        vars(self._trainer).pop("grad_fn", None)
