"""The only room that knows MindNLP's Trainer; other rooms get from here what they need of it."""

from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import GOES_ON
from mindnlp_dp_plugin.trainers.mindnlp.patches import MODULE  # importing it enters its patches into compat's list

__all__ = ["MODULE", "hook"]


def hook(trainer_base, group, config, patches) -> None:
    """Let the Trainer train data-parallel; in one process, let it do what its arguments ask for and stock ignores.

    Args:
        trainer_base: The module ``MODULE``.
        group: The ranks that train together.
        config: The ``DataParallelConfig`` to train by.
        patches: Restores the Trainer.
    """
    from mindnlp_dp_plugin.trainers.mindnlp.alone import hook_lone_trainer
    from mindnlp_dp_plugin.trainers.mindnlp.install import hook_trainer

    def hook_ranks_trainer():
        hook_trainer(trainer_base, group, config, patches)

    asks_for_more = (
        config.elastic_determinism or config.dispatch_batches or config.resume or config.async_save or config.profile
    )
    if group.world_size > 1 or asks_for_more or told(GOES_ON):
        hook_ranks_trainer()
    else:
        hook_lone_trainer(trainer_base, config, patches, hook_ranks_trainer)
