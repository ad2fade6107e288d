"""Ranks step with the same learning rate, weight decay and momentum: compared on the way, before each step."""

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.port import Door

NAMES = ("lr", "weight_decay", "momentum")
CLOSE = 1e-5  # of a value: what float32 makes of a sum over many ranks
HINT = Message("Give the optimizer the same groups of parameters on every rank.")


class Hyperparameters:
    """Those of an optimizer's groups.

    Making it compares how many groups there are; all ranks must.

    Args:
        door: The loop.
        collective: The ranks that train together.

    Raises:
        DataParallelError: If optimizers of ranks have other numbers of groups.
    """

    def __init__(self, door: Door, collective: Collective):
        self._door = door
        self._num_groups = len(door.optimizer.param_groups)
        require_same("optimizer.param_groups", self._num_groups, collective, HINT)

    def values(self) -> list[float]:
        """Those of this rank, group by group; as many on all ranks."""
        groups = self._door.optimizer.param_groups[: self._num_groups]
        found = [_number(group.get(name)) for group in groups for name in NAMES]
        return found + [0.0] * (self._num_groups * len(NAMES) - len(found))

    def require_same(self, own: list[float], sums: list[float], num_ranks: int) -> None:
        """Raise where this rank's differ from the mean of all ranks.

        Args:
            own: ``values`` of this rank.
            sums: Those of all ranks, added up.
            num_ranks: How many.

        Raises:
            DataParallelError: Naming the first.
        """
        for place, (mine, total) in enumerate(zip(own, sums)):
            if abs(total - num_ranks * mine) > CLOSE * max(abs(total), abs(num_ranks * mine)):
                group, name = divmod(place, len(NAMES))
                raise DataParallelError(
                    "Before optimizer step {step}, {name} of parameter group {group} is {mine:.6g} on this rank and "
                    "{others:.6g} on the others (their mean): replicas would drift apart. Decide it from what all "
                    "ranks know: dp.all_gather_object(value), or a loss that is the mean over ranks, "
                    "dp.global_mean(loss, 1).",
                    step=self._door.num_steps + 1,
                    name=NAMES[name],
                    group=group,
                    mine=mine,
                    others=(total - mine) / (num_ranks - 1),
                )


def _number(value):
    """A float of a number or a tensor of one; 0 for what is neither."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0
