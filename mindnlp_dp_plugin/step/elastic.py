"""``elastic_determinism``: the same bits on any number of ranks, or one line that says what cannot have them."""

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError


def micro_batches_of(accumulation: int, collective: Collective, config: DataParallelConfig) -> MicroBatches | None:
    """The micro-batches of a step if sums are to follow their tree, otherwise None.

    Args:
        accumulation: Micro-steps of a step on each rank.
        collective: The ranks that train together.
        config: The settings.

    Raises:
        DataParallelError: If gradients are to be rounded before they are sent.
    """
    if not config.elastic_determinism:
        return None
    if config.comm_dtype != "float32":
        raise DataParallelError(
            "elastic_determinism with comm_dtype={comm_dtype!r}: how often a gradient is rounded would depend on the "
            "number of ranks. Leave one of the two out.",
            comm_dtype=config.comm_dtype,
        )
    return MicroBatches(accumulation * collective.world_size, collective.world_size, collective.rank)
