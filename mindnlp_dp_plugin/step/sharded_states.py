"""Let each rank keep of the optimizer's states and gradients what ``zero_stage`` says."""

import logging
from collections.abc import Callable

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp.plan import MEGABYTE
from mindnlp_dp_plugin.ddp.replicas import DIFFERENT_MODELS, SAME_MODEL, require_same_structure
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.fully_sharded import SharedParameters, join_parameters, shared_parameters
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.optim.parameters import stepped_parameters
from mindnlp_dp_plugin.optim.sharded import ShardedStates, join_states, share_states
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.port import Door

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
WITH_PARAMETERS = Message(
    "zero_stage=3: parameters are gathered for each module in forward and in backward, where it computes again, "
    "gradients are reduce-scattered; a rank keeps 1/{ranks} of {megabytes:.0f} MB of parameters, of the averaged "
    "gradients and of the optimizer's states"
)
REDUCED = Message(
    "zero_stage=2: gradients are all-reduced, as this engine has no reduce-scatter, parameters gathered "
    "after each step; a rank keeps 1/{ranks} of the optimizer's states and of the averaged gradients"
)


def share_parameters(
    door: Door, collective: Collective, config: DataParallelConfig, patches: Patches
) -> SharedParameters | None:
    """Share out the parameters of the model, as rank 0 has them, if the stage says so. All ranks must call it.

    Args:
        door: The loop.
        collective: The ranks that train together.
        config: Holds the stage.
        patches: End the training.

    Raises:
        DataParallelError: If ranks have other stages, or the model's parameters cannot be shared out.
    """
    require_same("zero_stage", config.zero_stage, collective, HINT)
    if config.zero_stage < 3:
        join_parameters(door.model)
        return None
    if config.elastic_determinism:
        raise DataParallelError(
            "zero_stage=3 with elastic_determinism: all ranks gather parameters together, but each computes its "
            "micro-batches one after another. Use zero_stage=2, or leave elastic_determinism out."
        )
    require_same_structure(door.model.named_parameters(), collective, DIFFERENT_MODELS, SAME_MODEL)
    shared = shared_parameters(door.model) or SharedParameters(
        door.model, stepped_parameters(door.optimizer), collective, config.bucket_cap_mb
    )
    shared.train(patches)
    return shared


def shard_states(
    door: Door,
    collective: Collective,
    config: DataParallelConfig,
    steps: WatchedSteps,
    kept: Callable[[], dict],
    shared: SharedParameters | None = None,
) -> Callable | None:
    """Cut the optimizer's states, or join what an earlier call has cut. All ranks must call it.

    Args:
        door: The loop.
        collective: The ranks that train together.
        config: Holds the stage.
        steps: Makes the optimizer's steps.
        kept: Returns ``GradientReducer.kept``.
        shared: The parameters, if they are shared out.

    Returns:
        The ``slices`` of a ``GradientReducer``; None if all ranks keep all gradients.

    Raises:
        DataParallelError: If ranks have other stages, or the optimizer's states cannot be cut.
    """
    if config.zero_stage == 0:
        join_states(door.optimizer)
        return None

    layout = shared.buckets if shared else None

    def states_of(optimizer) -> ShardedStates:
        return share_states(optimizer, door.model, collective, config.bucket_cap_mb, layout)

    states_of(door.optimizer)
    steps.way = lambda optimizer, step: states_of(optimizer).step(step, kept())
    logger.info(what_is_shared_out(collective, config, shared))
    return (lambda: states_of(door.optimizer).buckets) if config.zero_stage >= 2 else None


def what_is_shared_out(
    collective: Collective, config: DataParallelConfig, shared: SharedParameters | None = None
) -> str | None:
    """What a rank keeps, and by which collectives; None if it keeps everything.

    Args:
        collective: The ranks that train together.
        config: Holds the stage.
        shared: The parameters, if they are shared out.
    """
    ranks = collective.world_size
    if config.zero_stage == 0:
        return None
    if shared:
        return tr(WITH_PARAMETERS, ranks=ranks, megabytes=shared.num_bytes / MEGABYTE)
    what = STATES if config.zero_stage == 1 else SCATTERED if collective.can_reduce_scatter else REDUCED
    return tr(what, ranks=ranks)
