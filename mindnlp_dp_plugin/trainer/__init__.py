"""The only room that knows MindNLP's Trainer; other rooms get from here what they need of it."""

from mindnlp_dp_plugin.trainer.patches import MODULE  # importing it enters its patches into compat's list

__all__ = ["MODULE", "hook"]


def hook(trainer_base, group, config, replacements) -> None:
    """Let the Trainer train data-parallel; in one process, let it group rows by length if its arguments say so.

    Args:
        trainer_base: The module ``MODULE``.
        group: The ranks that train together.
        config: The ``DataParallelConfig`` to train by.
        replacements: Restores the Trainer.
    """
    if group.world_size > 1 or config.average_over != "ranks":
        from mindnlp_dp_plugin.trainer.install import hook_trainer

        hook_trainer(trainer_base, group, config, replacements)
    else:
        from mindnlp_dp_plugin.trainer.alone import hook_lone_trainer

        hook_lone_trainer(trainer_base, replacements)
