"""The output folder of a run."""

import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import yaml

from mindnlp_dp_plugin.distributed.ranks import get_world_size
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import COMMAND_LINE
from mindnlp_dp_plugin.recipes.options import RecipeOptions, in_full, to_yaml

PACKAGES = ("mindnlp-dp-plugin", "mindspore", "mindnlp", "datasets", "tokenizers", "numpy", "mpi4py")


class RunFolder:
    """The folder of a run.

    A finished run is never taken apart: a new one beside it is written to ``next`` in it, and takes its place when it
    is finished, too.

    Attributes:
        model: The trained model and its tokenizer, in ``save_pretrained`` form.
        metrics: Scores, history, command and versions, as JSON.
        report: One page of all that, with plots.
        proof: That ranks take the steps of one process, if it was asked for.
        settings: What ``--config`` takes to run it again.
        tensorboard: Event files.
        wandb: Those of Weights & Biases.
        swanlab: Those of SwanLab.
        checkpoints: What a run goes on from.
        fingerprint: What a run that goes on must have in common with these checkpoints.
        prepared: Tokenised data; gone when the run is done.
    """

    def __init__(self, folder: str | Path):
        self.home = Path(folder)
        self.model = self.home / "model"
        self.metrics = self.home / "metrics.json"
        self.report = self.home / "report.html"
        self.proof = self.home / "proof.json"
        self.settings = self.home / "run.yaml"
        self.tensorboard = self.home / "tensorboard"
        self.wandb = self.home / "wandb"
        self.swanlab = self.home / "swanlab"
        self.checkpoints = self.home / "checkpoints"
        self.fingerprint = self.checkpoints / "fingerprint.json"
        self.prepared = self.home / "prepared"

    @property
    def has_checkpoints(self) -> bool:
        """Whether a run can go on from here."""
        return any(self.checkpoints.glob("checkpoint-*"))

    def workplace(self, resume: bool) -> "RunFolder":
        """Where a run is written until it is finished: here, unless a finished run is to be replaced."""
        beside = RunFolder(self.home / "next")
        if not self.metrics.exists() or resume and not beside.has_checkpoints:
            return self
        return beside

    def check(self, options: RecipeOptions) -> None:
        """Check that a run may be written here.

        Args:
            options: The run's options.

        Raises:
            DataParallelError: If there is a run on other data; if it is to go on and there is no checkpoint; if it is
                not to, and one waits for that; if nothing can be written here.
        """
        self._require_writable()
        work = self.workplace(options.resume)
        earlier = work._dataset_of_run_here() or self._dataset_of_run_here()
        is_taken = work.has_checkpoints or self.metrics.exists()
        if earlier not in (None, in_full(options.dataset)) and is_taken:
            raise DataParallelError(
                "{folder!r} holds a run on {earlier!r}, and this one is on other data: give another --output-dir.",
                folder=str(self.home),
                earlier=earlier,
            )
        if options.resume and not work.has_checkpoints:
            raise DataParallelError(
                "--resume: no checkpoint in {folder!r}: train from the start.", folder=str(work.checkpoints)
            )
        if work.has_checkpoints and not options.resume and not work.metrics.exists():
            raise DataParallelError(
                "{folder!r} holds checkpoints of an unfinished run: continue with --resume, remove them, or give "
                "another --output-dir.",
                folder=str(work.home),
            )

    def begin(self, options: RecipeOptions) -> None:
        """Make the folder; what an unfinished run left here is removed, unless it is to go on. On one rank.

        Nothing of a finished run is touched: what goes on from it replaces its results when it has its own.
        """
        if not options.resume:
            for left in (self.model, self.tensorboard, self.wandb, self.swanlab, self.checkpoints):
                shutil.rmtree(left, ignore_errors=True)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        if not self.metrics.exists():
            write_text(self.settings, to_yaml(options, nproc=get_world_size()))

    def finish(self, home: "RunFolder") -> None:
        """Remove what only an unfinished run needs; and put the run in the place of the one it replaces, if it does.

        Args:
            home: Where it belongs.
        """
        shutil.rmtree(self.prepared, ignore_errors=True)
        if self.home == home.home:
            return
        replaced = home.home / "replaced"
        shutil.rmtree(replaced, ignore_errors=True)
        replaced.mkdir()
        for part in sorted(self.home.iterdir()):
            if (earlier := home.home / part.name).exists():
                earlier.rename(replaced / part.name)
            part.rename(earlier)
        self.home.rmdir()
        home.proof.unlink(missing_ok=True)  # of what was replaced
        shutil.rmtree(replaced)

    def _require_writable(self):
        """Make a file where the run would begin, and remove it: permissions alone do not tell."""
        existing = next(folder for folder in (self.home, *self.home.absolute().parents) if folder.exists())
        try:
            with tempfile.TemporaryFile(dir=existing):
                return
        except OSError as error:
            raise DataParallelError(
                "--output-dir {folder!r} cannot be written: give another folder ({reason}).",
                folder=str(self.home),
                reason=error.strerror or error,
            ) from None

    def _dataset_of_run_here(self):
        return self.settings_here().get("dataset")

    def settings_here(self) -> dict:
        """The settings of the run that is here; empty if there is none, or not as a run has left them."""
        with suppress(OSError, ValueError, yaml.YAMLError):
            found = yaml.safe_load(self.settings.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
        return {}


def replace_folder(made: Path, folder: Path) -> None:
    """Put a folder in the place of another one, if there is one."""
    replaced = folder.with_name(f"replaced-{folder.name}")
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    made.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)


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
