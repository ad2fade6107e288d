"""The one error for a value that must be the same on all ranks and is not."""

from typing import Any

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr


def require_same(what: str, value: Any, collective: Collective, hint: str, shown: str | None = None) -> None:
    """Raise on all ranks unless all pass an equal value. All ranks must call it.

    Args:
        what: The subject of the sentence "``what`` differs between ranks".
        value: This rank's value; small and picklable.
        collective: The ranks to compare.
        hint: What the user can do about it, in whole sentences.
        shown: How the value is shown; None for its ``str``. Ranks may show it in different languages.

    Raises:
        DataParallelError: If the values differ; the message shows each rank's.
    """
    everyone = collective.all_gather_object((value, shown), Message("values that must be the same"))
    if any(other != everyone[0][0] for other, _ in everyone):
        described = tr("; ").join(
            tr("rank {rank} has {value}", rank=rank, value=value if shown is None else shown)
            for rank, (value, shown) in enumerate(everyone)
        )
        raise DataParallelError(
            "{what} differs between ranks: {described}. {hint}", what=what, described=described, hint=hint
        )
