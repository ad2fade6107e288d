"""The one error for a value that must be the same on all ranks and is not."""

from typing import Any

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.errors import DataParallelError


def require_same(what: str, value: Any, collective: Collective, hint: str) -> None:
    """Raise on all ranks unless all pass an equal value. All ranks must call it.

    Args:
        what: The subject of the sentence "``what`` differs between ranks".
        value: This rank's value; small and picklable. Its ``str`` is shown.
        collective: The ranks to compare.
        hint: What the user can do about it, in whole sentences.

    Raises:
        DataParallelError: If the values differ; the message shows each rank's.
    """
    values = collective.all_gather_object(value)
    if any(other != values[0] for other in values):
        described = "; ".join(f"rank {rank} has {value}" for rank, value in enumerate(values))
        raise DataParallelError(f"{what} differs between ranks: {described}. {hint}")
