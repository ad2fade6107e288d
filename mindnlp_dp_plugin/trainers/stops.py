"""Trainings that a callback stopped: what a checkpoint says of that, and whether they go on. The same for each Trainer.

A restart leaves stopped what was stopped. A new job goes on with it, unless early stopping has lost its patience.
"""

import math
from dataclasses import dataclass
from typing import Any

from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import JOB, RESTART
from mindnlp_dp_plugin.language import tr

COUNTER = "early_stopping_patience_counter"  # what EarlyStoppingCallback changes while it trains


@dataclass(frozen=True)
class Stop:
    """A callback has stopped the training of a checkpoint.

    Attributes:
        stays: Whether no step more is trained.
        news: What the user must know of it.
    """

    stays: bool
    news: str


def as_recorded(trainer) -> dict[str, Any]:
    """What a checkpoint of now says: whether a callback has stopped training, and how long each has waited."""
    state, control = trainer.state, trainer.control
    return {
        "stopped_early": control.should_training_stop and state.global_step < state.max_steps,
        "patience": [getattr(callback, COUNTER) for callback in _with_patience(trainer)],
    }


def restore_patience(trainer, waited: list[int]) -> None:
    """Let each callback have waited as long as when the checkpoint was saved."""
    for callback, count in zip(_with_patience(trainer), waited):
        setattr(callback, COUNTER, count)


def stop_of(checkpoint: str, record: dict[str, Any], state: dict[str, Any], trainer) -> Stop | None:
    """How a callback has stopped the training of a checkpoint; None if none has.

    Args:
        checkpoint: Its folder.
        record: What it says: of ``as_recorded``, and which job wrote it.
        state: The Trainer's state that it holds.
        trainer: The Trainer that would go on with it.
    """
    if not record.get("stopped_early"):
        return None
    known = {"checkpoint": checkpoint, "step": state["global_step"]}
    if not _stays_stopped(record, state, trainer):
        news = tr("A callback stopped the training of {checkpoint} at step {step}; now it goes on.", **known)
        return Stop(stays=False, news=news)
    news = tr(
        "No step is trained: a callback stopped the training of {checkpoint} at step {step}. To go on, leave early "
        "stopping out or raise its patience, or train for more epochs or steps.",
        **known,
    )
    return Stop(stays=True, news=news)


def _stays_stopped(record, state, trainer):
    arguments = trainer.args
    if arguments.max_steps > 0:
        is_other_length = arguments.max_steps != state["max_steps"]
    else:
        is_other_length = math.ceil(arguments.num_train_epochs) != state["num_train_epochs"]
    is_restart = int(told(RESTART) or 0) > 0 and record.get("job") == told(JOB)
    waits = zip(record["patience"], _with_patience(trainer))
    has_run_out = any(count >= callback.early_stopping_patience for count, callback in waits)
    return not is_other_length and (is_restart or has_run_out)


def _with_patience(trainer):
    return [callback for callback in trainer.callback_handler.callbacks if hasattr(callback, COUNTER)]
