"""The door for loops of one's own over MindNLP's models: ``dp.prepare``, and what goes with it."""

from collections.abc import Callable

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.loop import gradients


def install(config: DataParallelConfig, when_imported: Callable, patches: Patches) -> None:
    """Let ``dp.prepare`` find the settings, and MindNLP's functions of gradients find prepared models.

    Args:
        config: The settings.
        when_imported: Calls a function with a module when that is imported.
        patches: Restores MindNLP.
    """
    gradients.settings["config"] = config
    when_imported(gradients.MODULE, lambda function: gradients.average_gradients(function, patches))
