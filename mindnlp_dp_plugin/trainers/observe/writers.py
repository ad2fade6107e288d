"""Where a tracker writes: TensorBoard's files, and the runs of Weights & Biases and of SwanLab."""

import json
import os
import time
from pathlib import Path
from typing import Any, Protocol

from mindnlp_dp_plugin.trainers.observe.callback import needed

FLUSH_S = 10  # a killed job loses at most this much
OFFLINE = "offline"


class Writer(Protocol):
    """What a tracker calls, on rank 0."""

    def begin(self, args, state, settings: dict[str, dict]) -> None:
        """Training begins: open what is written to, and write the settings."""

    def write(self, values: dict[str, float], args, state) -> None:
        """Write numbers at ``state.global_step``; also before training, and after it."""

    def close(self) -> None:
        """Training ended, or never began; evaluations may follow."""


class TensorBoardWriter:
    """Writes files in one folder; a resumed run goes on there.

    Args:
        folder: The folder; None for the Trainer's.
    """

    def __init__(self, folder: str | Path | None):
        self._tensorboard = needed("tensorboardX", "TensorBoardCallback", "'mindnlp-dp-plugin[tracking]'")
        self._chosen, self._folder, self._file = folder, None, None

    def begin(self, args, state, settings):
        """Hide what an interrupted run wrote after its checkpoint, and write the settings."""
        self.close()
        self._folder = self._folder_for(args, state)
        self._file = self._open(purge_step=state.global_step + 1)
        for name, values in settings.items():
            text = json.dumps(values, indent=2, default=str).replace("\n", "\n    ")  # a block of Markdown
            self._file.add_text(name, f"    {text}", state.global_step)

    def write(self, values, args, state):
        """Write numbers."""
        self._folder = self._folder or self._folder_for(args, state)
        self._file = self._file or self._open()
        for tag, value in values.items():
            self._file.add_scalar(tag, value, state.global_step)

    def close(self):
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, **how):
        # tensorboardX names files by the second, and would overwrite a file of the same second.
        suffix = f".{time.time_ns()}"
        return self._tensorboard.SummaryWriter(str(self._folder), flush_secs=FLUSH_S, filename_suffix=suffix, **how)

    def _folder_for(self, args, state):
        if self._chosen is not None:
            return Path(self._chosen)
        folder, home = Path(args.logging_dir), Path(args.output_dir, "runs")
        if state.global_step and folder.parent == home and not folder.exists():
            earlier = sorted(home.glob("*/events.out.tfevents.*"), key=lambda file: file.stat().st_mtime)
            return earlier[-1].parent if earlier else folder
        return folder


class RunWriter:
    """Writes to a run of a service whose package has ``init``, and runs that have ``log`` and ``finish``.

    Nothing is sent unless the user says so. A run stays open after training, for evaluations; the next training begins
    another, and the end of the process ends it.

    Args:
        folder: Where to write; None for the Trainer's folder.
        settings: Other keywords of ``init``.
    """

    package: str
    callback: str
    mode_variable: str
    folder_keyword: str

    def __init__(self, folder: str | Path | None, settings: dict[str, Any]):
        self._service = needed(self.package, self.callback, self.package)
        self._settings = {"mode": os.environ.get(self.mode_variable, OFFLINE), **settings}
        self._folder, self._run = folder, None

    def begin(self, args, state, settings):
        """Begin a run."""
        if self._run is not None:
            self._run.finish()
        folder = Path(self._folder or args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        how = {"project": "mindnlp-dp", "config": settings, self.folder_keyword: str(folder)}
        self._run = self._service.init(**how | self._settings)

    def write(self, values, args, state):
        """Write numbers."""
        if self._run is None:
            self.begin(args, state, {"args": args.to_dict()})
        if values:
            self._run.log(values, step=state.global_step)

    def close(self):
        """The run stays open."""


class WandbWriter(RunWriter):
    """Writes to Weights & Biases."""

    package, callback, mode_variable, folder_keyword = "wandb", "WandbCallback", "WANDB_MODE", "dir"


class SwanLabWriter(RunWriter):
    """Writes to SwanLab."""

    package, callback, mode_variable, folder_keyword = "swanlab", "SwanLabCallback", "SWANLAB_MODE", "logdir"
