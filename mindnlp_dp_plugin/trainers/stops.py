"""Trainings that a callback stopped: what a checkpoint says of that, and whether they go on. The same for each Trainer.

A restart leaves stopped what was stopped. Another job goes on with it, and the callback decides again: early stopping
has waited as long as it had, and stops at its next evaluation unless that is better.
"""

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


def stop_of(checkpoint: str, record: dict[str, Any], step: int) -> Stop | None:
    """How a callback has stopped the training of a checkpoint; None if none has.

    Args:
        checkpoint: Its folder.
        record: What it says: of ``as_recorded``, and which job wrote it.
        step: Its optimizer step.
    """
    if not record.get("stopped_early"):
        return None
    known = {"checkpoint": checkpoint, "step": step}
    if not (int(told(RESTART) or 0) and record.get("job") == told(JOB)):
        news = tr("A callback stopped the training of {checkpoint} at step {step}; now it goes on.", **known)
        return Stop(stays=False, news=news)
    news = tr(
        "No step is trained: a callback stopped the training of {checkpoint} at step {step}. To go on, start a new job "
        "with --resume.",
        **known,
    )
    return Stop(stays=True, news=news)


def _with_patience(trainer):
    return [callback for callback in trainer.callback_handler.callbacks if hasattr(callback, COUNTER)]
