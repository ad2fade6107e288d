"""What the core asks of whoever runs a training loop, and what it tells him: a door implements ``Door``.

``step/`` and the rooms below it know a loop by these names only. ``step.Step`` says when they are used. A door calls,
for each batch that its loop takes from ``step.announcements.read``, or tells by ``step.announcements.announce``::

    with step.micro_step():
        loss = step.training_step(batch, forward_and_backward)

where ``forward_and_backward`` computes the loss through ``step.forward`` and calls ``step.finish`` behind backward.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from mindnlp_dp_plugin.language import Message


class Announced(NamedTuple):
    """A batch that follows: its columns by name, and whether another rank reads it, so that it counts nothing."""

    columns: Mapping
    is_repeated: bool


class Clock(Protocol):
    """Where the loop stands between two optimizer steps; the same on all ranks.

    Attributes:
        micro_steps: Micro-steps done since training first began.
        begins_optimizer_step: Whether the current or next micro-step is the first of an optimizer step.
        optimizer_steps_next: Whether the optimizer steps after the current micro-step.
        micro_steps_left: Micro-steps up to that after which the optimizer steps, as far as the loop can tell.
    """

    micro_steps: int
    begins_optimizer_step: bool
    optimizer_steps_next: bool
    micro_steps_left: int

    def end_micro_step(self) -> None:
        """The current micro-step is done."""


class Door:
    """A training loop, as the core sees it. What has a value here may be left out.

    It has many attributes because they are all that the core asks of a loop.

    Attributes:
        name: What users call the loop, in messages.
        model: What is trained; it has ``named_parameters``, ``named_buffers`` and ``state_dict``.
        optimizer: Has ``param_groups`` and ``step``; the loop may replace it between two micro-steps.
        utils: The module with the ``clip_grad_norm_`` that the loop calls.
        functional: The module with the ``cross_entropy`` that losses call; None if they may call others.
        clock: Where the loop stands.
        num_steps: Optimizer steps made so far, counted by the loop.
        seed: What dropout's streams are drawn from, with the rank and the micro-step.
        accumulation: Micro-steps of an optimizer step.
        nominal_accumulation: Micro-steps whose gradients a step sums; another number than ``accumulation`` if training
            was begun with another split of the same global batch.
        dtype: What forward is to compute in; None for the model's own.
        weighs_losses: Whether the loop itself makes losses the shares of ranks in one mean.
        labels: The column of labels, of which a loss is a mean where a row has several; None if there is none.
        leaves_out: Which labels the loss leaves out beside those that are -100, as of ``step/left_out.py``.
        may_call_backward_again: Whether user code between ``micro_step`` and ``training_step`` may read gradients, and
            call backward more than once. They are then averaged after each.
        may_replace_gradients: Whether user code may attach other gradients after ``finish``.
        averaged_when: When gradients are averaged, for whom steps on others; a sentence.
        joins_when: When the optimizer may be given new parameters; a sentence.
    """

    name: str
    model: Any
    optimizer: Any
    utils: ModuleType
    functional: ModuleType | None = None
    clock: Clock
    num_steps: int
    seed: int
    accumulation = nominal_accumulation = 1
    dtype: Any = None
    labels: str | None = "labels"
    leaves_out: str | None = None
    weighs_losses = may_call_backward_again = may_replace_gradients = False
    averaged_when = Message(
        "They are averaged by the end of the training_step after which the Trainer steps: let only the Trainer step."
    )
    joins_when = Message("Give the optimizer new parameters in on_step_end, on_step_begin or on_epoch_begin.")

    def votes(self) -> list[bool]:
        """This rank's answers to yes-or-no questions; as many on all ranks. Asked once for each optimizer step."""
        return []

    def count(self, votes: Sequence[int]) -> None:
        """How many ranks said yes to each question, before backward begins."""

    def forget_parameters(self) -> None:
        """The optimizer steps other parameters from now on: drop what was built from the old ones."""
