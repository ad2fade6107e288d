"""The one error for what must be the same on all ranks and is not."""

from typing import Any

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.errors import DataParallelError


def require_same(what: str, value: Any, collective: Collective, hint: str) -> None:
    """Raise, on all ranks, unless all ranks pass an equal value. To be called on all ranks.

    Args:
        what: The thing, as the sentence "``what`` differs between ranks" names it.
        value: What this rank has; small and picklable. Its ``str`` is shown.
        collective: The ranks to compare.
        hint: What the user can do about it; whole sentences.

    Raises:
        DataParallelError: If the ranks' values differ; it shows each rank's.
    """
    values = collective.all_gather_object(value)
    if any(other != values[0] for other in values):
        described = "; ".join(f"rank {rank} has {value}" for rank, value in enumerate(values))
        raise DataParallelError(f"{what} differs between ranks: {described}. {hint}")
