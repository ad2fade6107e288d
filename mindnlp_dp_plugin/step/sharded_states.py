"""Let each rank keep of the optimizer's states and gradients what ``zero_stage`` says."""

import logging
from collections.abc import Callable

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.optim.sharded import ShardedStates, join_states, share_states
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.trainers.port import Door

logger = logging.getLogger(__name__)

HINT = Message("Start all ranks with the same MINDNLP_DP_ZERO_STAGE.")
STATES = Message(
    "zero_stage=1: gradients are all-reduced, parameters gathered after each step; a rank keeps 1/{ranks} "
    "of the optimizer's states"
)
SCATTERED = Message(
    "zero_stage=2: gradients are reduce-scattered, parameters gathered after each step; a rank keeps "
    "1/{ranks} of the optimizer's states and of the averaged gradients"
)
REDUCED = Message(
    "zero_stage=2: gradients are all-reduced, as this engine has no reduce-scatter, parameters gathered "
    "after each step; a rank keeps 1/{ranks} of the optimizer's states and of the averaged gradients"
)


def shard_states(
    door: Door, collective: Collective, config: DataParallelConfig, steps: WatchedSteps, kept: Callable[[], dict]
) -> Callable | None:
    """Cut the optimizer's states, or join what an earlier call has cut. All ranks must call it.

    Args:
        door: The loop.
        collective: The ranks that train together.
        config: Holds the stage.
        steps: Makes the optimizer's steps.
        kept: Returns ``GradientReducer.kept``.

    Returns:
        The ``slices`` of a ``GradientReducer``; None if all ranks keep all gradients.

    Raises:
        DataParallelError: If ranks have other stages, or the optimizer's states cannot be cut.
    """
    require_same("zero_stage", config.zero_stage, collective, HINT)
    if config.zero_stage == 0:
        join_states(door.optimizer)
        return None

    def states_of(optimizer) -> ShardedStates:
        return share_states(optimizer, collective, config.bucket_cap_mb)

    states_of(door.optimizer)
    steps.way = lambda optimizer, step: states_of(optimizer).step(step, kept())
    what = STATES if config.zero_stage == 1 else SCATTERED if collective.can_reduce_scatter else REDUCED
    logger.info(tr(what, ranks=collective.world_size))
    return (lambda order: states_of(door.optimizer).buckets(order)) if config.zero_stage == 2 else None
