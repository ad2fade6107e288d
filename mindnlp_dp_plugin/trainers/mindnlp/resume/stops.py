"""Whether a run that a callback stopped goes on when it resumes: if the callback is gone or has other settings.

Which callback it was is not known, so all of the script's are compared, as they were before training began.
"""

from typing import Any

PLAIN = (int, float, str, bool, type(None))
COUNTER = "early_stopping_patience_counter"  # what EarlyStoppingCallback changes while it trains
PACKAGES = ("mindnlp", "mindnlp_dp_plugin")


def describe_callbacks(callbacks: list) -> list[dict[str, Any]]:
    """The class and the plain attributes of each callback that may stop training, in a form JSON can hold."""
    return [
        {"class": type(callback).__qualname__, **_settings(callback)}
        for callback in callbacks
        if hasattr(callback, COUNTER) or type(callback).__module__.partition(".")[0] not in PACKAGES
    ]


def _settings(callback):
    return {name: value for name, value in vars(callback).items() if isinstance(value, PLAIN) and name != COUNTER}
