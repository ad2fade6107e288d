"""A seed for what must be common to all ranks, where a script gives each rank one of its own."""

import logging

from mindspore import dataset as ds

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
SEEDS = Message("seeds")


def common_seed(name: str, seed: int, collective: Collective) -> int:
    """Rank 0's seed; a line of its log says so if ranks have others. All ranks must call it.

    Tutorials of data parallelism show ``set_seed(seed + rank)``, so that dropout differs: the plugin draws dropout by
    rank in any case. What must not differ, the order of rows and random splits, is drawn from this seed.

    Args:
        name: What the script has set, for the line.
        seed: This rank's.
        collective: The ranks that train together.
    """
    found = collective.all_gather_object((seed, ds.config.get_seed()), SEEDS)
    seeds, of_data = zip(*found)
    if len(set(of_data)) > 1:  # mindspore.set_seed sets it, too
        ds.config.set_seed(of_data[0])
    if len(set(seeds)) > 1 and collective.rank == 0:
        logger.warning(
            tr(
                "{name} differs between ranks ({seeds}): the order of rows, and all else that must be the same, "
                "comes from rank 0's. Dropout always differs between ranks.",
                name=name,
                seeds=", ".join(map(str, seeds)),
            )
        )
    return seeds[0]
