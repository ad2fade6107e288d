"""The output folder of a run."""

import json
import os
import platform
import shlex
import shutil
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import yaml

from mindnlp_dp_plugin.distributed.ranks import barrier, get_world_size, is_main_process
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import COMMAND_LINE
from mindnlp_dp_plugin.recipes.options import RecipeOptions, in_full, to_yaml

PACKAGES = ("mindnlp-dp-plugin", "mindspore", "mindnlp", "datasets", "tokenizers", "numpy", "mpi4py")


class RunFolder:
    """The folder of a run.

    Attributes:
        model: The trained model and its tokenizer, in ``save_pretrained`` form.
        metrics: Scores, history, command and versions, as JSON.
        report: One page of all that, with plots.
        settings: What ``--config`` takes to run it again.
        tensorboard: Event files.
        wandb: Those of Weights & Biases.
        swanlab: Those of SwanLab.
        checkpoints: What a run goes on from.
        prepared: Tokenised data; gone when the run is done.
    """

    def __init__(self, folder: str | Path):
        self.home = Path(folder)
        self.model = self.home / "model"
        self.metrics = self.home / "metrics.json"
        self.report = self.home / "report.html"
        self.settings = self.home / "run.yaml"
        self.tensorboard = self.home / "tensorboard"
        self.wandb = self.home / "wandb"
        self.swanlab = self.home / "swanlab"
        self.checkpoints = self.home / "checkpoints"
        self.prepared = self.home / "prepared"

    def check(self, options: RecipeOptions) -> None:
        """Check that a run may be written here.

        Args:
            options: The run's options.

        Raises:
            DataParallelError: If there is a run on other data; if it is to go on and there is no checkpoint; if it is
                not to, and one waits for that.
        """
        if self.home.exists() and not (self.home.is_dir() and os.access(self.home, os.W_OK)):
            raise DataParallelError(
                "--output-dir {folder!r} cannot be written: give another folder.", folder=str(self.home)
            )
        has_checkpoints = any(self.checkpoints.glob("checkpoint-*"))
        earlier = self._dataset_of_run_here()
        if earlier not in (None, in_full(options.dataset)) and (has_checkpoints or self.metrics.exists()):
            raise DataParallelError(
                "{folder!r} holds a run on {earlier!r}, and this one is on other data: give another --output-dir.",
                folder=str(self.home),
                earlier=earlier,
            )
        if options.resume and not has_checkpoints:
            raise DataParallelError(
                "--resume: no checkpoint in {folder!r}: train from the start.", folder=str(self.checkpoints)
            )
        if has_checkpoints and not options.resume and not self.metrics.exists():
            raise DataParallelError(
                "{folder!r} holds checkpoints of an unfinished run: continue with --resume, remove them, or give "
                "another --output-dir.",
                folder=str(self.home),
            )

    def open(self, options: RecipeOptions) -> None:
        """Make the folder; what an earlier run left is removed, unless it is to go on. All ranks must call it."""
        if is_main_process():
            self.check(options)
            if not options.resume:
                for left in (self.model, self.tensorboard, self.wandb, self.swanlab, self.checkpoints):
                    shutil.rmtree(left, ignore_errors=True)
            shutil.rmtree(self.prepared, ignore_errors=True)
            self.metrics.unlink(missing_ok=True)
            self.report.unlink(missing_ok=True)
            self.home.mkdir(parents=True, exist_ok=True)
            write_text(self.settings, to_yaml(options, nproc=get_world_size()))
        barrier()

    def _dataset_of_run_here(self):
        with suppress(OSError, ValueError, yaml.YAMLError, AttributeError):  # none, or not as a run has left it
            return yaml.safe_load(self.settings.read_text(encoding="utf-8")).get("dataset")


def write_json(path: Path, content) -> None:
    """Write a file atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    unfinished = path.with_name(f"incomplete-{path.name}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def command_line() -> str:
    """The command line that started this run, as far as this process knows."""
    return os.environ.get(COMMAND_LINE) or shlex.join(["python", *sys.argv])


def circumstances() -> dict:
    """Command, ranks and versions."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"command": command_line(), "ranks": get_world_size(), "machine": platform.platform(), "versions": versions}
