"""Whether a run that a callback stopped goes on when it resumes: if the callback is gone or has other settings.

Which callback it was is not known, so all of the script's are compared, as they were before training began. If they are
the same, a new job goes on all the same, as one process does: a time limit begins anew, and who still wants to stop
stops it again. Early stopping alone has said that no further step is wanted.
"""

from typing import Any

PLAIN = (int, float, str, bool, type(None))
PATIENCE = "early_stopping_patience"
COUNTER = "early_stopping_patience_counter"  # what EarlyStoppingCallback changes while it trains
PACKAGES = ("mindnlp", "mindnlp_dp_plugin")


def describe_callbacks(callbacks: list) -> list[dict[str, Any]]:
    """The class and the plain attributes of each callback that may stop training, in a form JSON can hold."""
    return [
        {"class": type(callback).__qualname__, **_settings(callback)}
        for callback in callbacks
        if hasattr(callback, COUNTER) or type(callback).__module__.partition(".")[0] not in PACKAGES
    ]


def has_run_out(waited: list[int], callbacks: list[dict[str, Any]]) -> bool:
    """Whether early stopping has ended it.

    Args:
        waited: How long each callback with patience has waited.
        callbacks: By ``describe_callbacks``.
    """
    limits = [callback[PATIENCE] for callback in callbacks if PATIENCE in callback]
    return any(count >= limit for count, limit in zip(waited, limits))


def _settings(callback):
    return {name: value for name, value in vars(callback).items() if isinstance(value, PLAIN) and name != COUNTER}
