"""The callbacks of this room: of either Trainer, and so of neither's class."""

from importlib import import_module
from types import ModuleType

from mindnlp_dp_plugin.errors import DataParallelError


class Callback:
    """Both Trainers call each event by its name, and ask for nothing else; those that a subclass lacks do nothing.

    It has many attributes because there are so many events.
    """

    def on_init_end(self, args, state, control, **kwargs):
        """Nothing is done."""

    on_train_begin = on_train_end = on_epoch_begin = on_epoch_end = on_init_end
    on_step_begin = on_pre_optimizer_step = on_optimizer_step = on_substep_end = on_step_end = on_init_end
    on_evaluate = on_predict = on_save = on_log = on_prediction_step = on_init_end


def needed(name: str, user: str, requirement: str) -> ModuleType:
    """Import what only some need.

    Args:
        name: The module.
        user: What needs it.
        requirement: What pip is to install.

    Raises:
        DataParallelError: If it is not there.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise DataParallelError(
            "{user} needs {package} ({error}): pip install {requirement}.",
            user=user,
            package=name,
            error=error,
            requirement=requirement,
        ) from error
