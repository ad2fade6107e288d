"""Whether early stopping has ended a training: it alone says that no further step is wanted."""

PATIENCE = "early_stopping_patience"
COUNTER = "early_stopping_patience_counter"  # what EarlyStoppingCallback changes while it trains


def patience_of(callbacks: list) -> list[int]:
    """How long each callback with patience waits."""
    return [getattr(callback, PATIENCE) for callback in callbacks if hasattr(callback, COUNTER)]


def has_run_out(waited: list[int], limits: list[int]) -> bool:
    """Whether a callback has lost its patience.

    Args:
        waited: How long each has waited.
        limits: By ``patience_of``.
    """
    return any(count >= limit for count, limit in zip(waited, limits))
