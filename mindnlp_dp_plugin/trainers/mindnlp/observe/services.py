"""Track training with Weights & Biases or SwanLab, without their servers unless they are asked for."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.trainers.mindnlp.observe.tracker import Tracker

OFFLINE = "offline"


class _Service(Tracker):
    """A tracker whose package has runs that are begun by ``init`` and written to by ``log``.

    A run stays open after training, for evaluations; the next training begins another, and the end of the process ends
    it.
    """

    package: str
    mode_variable: str
    folder_keyword: str

    def __init__(self, folder: str | Path | None = None, **settings: Any):
        super().__init__()
        try:
            self._module = import_module(self.package)
        except ImportError as error:
            raise DataParallelError(
                "{callback} needs {package} ({error}): pip install {package}.",
                callback=type(self).__name__,
                package=self.package,
                error=error,
            ) from error
        self._settings = {"mode": os.environ.get(self.mode_variable, OFFLINE), **settings}
        self._folder = folder
        self._run = None

    def _begin(self, args, state, settings):
        if self._run is not None:
            self._run.finish()
        folder = Path(self._folder or args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        how = {"project": "mindnlp-dp", "config": settings, self.folder_keyword: str(folder)}
        self._run = self._module.init(**how | self._settings)

    def _write(self, values, args, state):
        if self._run is None:
            self._begin(args, state, {"args": args.to_dict()})
        if values:
            self._run.log(values, step=state.global_step)

    def _end(self):
        pass


class WandbCallback(_Service):
    """Tracks training with Weights & Biases: ``Trainer(callbacks=[WandbCallback()])``.

    The series are those of ``TensorBoardCallback``. It writes to a folder and sends nothing, unless
    ``WANDB_MODE=online`` is set or ``mode="online"`` is given; ``wandb sync`` sends a folder later.
    A resumed run is a run of its own.

    Args:
        folder: Gets a folder ``wandb``. Default: the Trainer's output folder.
        **settings: Keywords of ``wandb.init``, such as ``project`` and ``name``.

    Raises:
        DataParallelError: If wandb is not installed.
    """

    package, mode_variable, folder_keyword = "wandb", "WANDB_MODE", "dir"


class SwanLabCallback(_Service):
    """Tracks training with SwanLab: ``Trainer(callbacks=[SwanLabCallback()])``.

    The series are those of ``TensorBoardCallback``. It writes to a folder and sends nothing, unless
    ``SWANLAB_MODE=cloud`` is set or ``mode="cloud"`` is given; ``swanlab sync`` sends a folder later.
    A resumed run is a run of its own.

    Args:
        folder: Gets a folder for each run. Default: the Trainer's output folder.
        **settings: Keywords of ``swanlab.init``, such as ``project`` and ``experiment_name``.

    Raises:
        DataParallelError: If swanlab is not installed.
    """

    package, mode_variable, folder_keyword = "swanlab", "SWANLAB_MODE", "logdir"
