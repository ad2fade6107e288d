"""The output folder of a run: one class reads and writes it."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import xxhash

from mindnlp_dp_plugin.distributed.ranks import get_world_size
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import RecipeOptions, in_full

TOKENS = "tokenizer"
LEFT = ("model", "checkpoints", "tensorboard", "wandb", "swanlab")  # folders of a run


class RunFolder:
    """The folder of a run. It belongs to one: a finished run is never taken apart, and only goes on.

    Attributes:
        model: The trained model and its tokenizer, in ``save_pretrained`` form.
        metrics: ``metrics.json``: scores, history, command and versions.
        report: ``report.html``: one page of all that, with plots.
        settings: ``run.yaml``: what ``--config`` takes to run it again.
        checkpoints: What a run goes on from, and what such a run must have in common with them.
        prepared: Tokenised data; gone when the run is done.
    """

    def __init__(self, folder: str | Path):
        self.home = Path(folder)
        self.model, self.checkpoints = self.home / "model", self.home / "checkpoints"
        self.prepared = self.home / "incomplete-data"
        self.metrics, self.report = self.home / "metrics.json", self.home / "report.html"
        self.settings, self._fingerprint = self.home / "run.yaml", self.checkpoints / "fingerprint.json"

    @property
    def has_checkpoints(self) -> bool:
        """Whether a run can go on from here."""
        return any(self.checkpoints.glob("checkpoint-*"))

    def results(self) -> dict:
        """What is in ``metrics.json``.

        Raises:
            DataParallelError: If the folder holds no finished run.
        """
        for wanted in (self.metrics, self.model / "config.json"):
            if not wanted.exists():
                raise DataParallelError(
                    "{run!r} holds no finished run ({file} is missing): give the --output-dir of a recipe.",
                    run=str(self.home),
                    file=wanted.relative_to(self.home),
                )
        return json.loads(self.metrics.read_text(encoding="utf-8"))

    def write_results(self, results: dict) -> None:
        """Write ``metrics.json``."""
        _write(self.metrics, json.dumps(results, indent=2, ensure_ascii=False) + "\n")

    def write_report(self, page: str) -> None:
        """Write ``report.html``."""
        _write(self.report, page)

    def write_settings(self, options: RecipeOptions, task: str) -> None:
        """Write ``run.yaml``."""
        _write(self.settings, options.to_yaml(task, nproc=get_world_size()))

    def write_model(self, *parts: Any) -> None:
        """Write ``model/`` by the ``save_pretrained`` of its parts; a model that is there is replaced as a whole."""
        made, replaced = (self.home / f"{name}-model" for name in ("incomplete", "replaced"))
        for part in parts:
            part.save_pretrained(str(made))
        shutil.rmtree(replaced, ignore_errors=True)
        if self.model.exists():
            self.model.rename(replaced)
        made.rename(self.model)
        shutil.rmtree(replaced, ignore_errors=True)

    def check(self, options: RecipeOptions) -> None:
        """Check that a run may be written here.

        Raises:
            DataParallelError: If a run is to go on and there is no checkpoint; if it is not to, and there is one that
                is finished or waits for that, or folders of something else; if nothing can be written here.
        """
        existing = next(folder for folder in (self.home, *self.home.absolute().parents) if folder.exists())
        try:
            tempfile.TemporaryFile(dir=existing).close()  # permissions alone do not tell
        except OSError as error:
            raise DataParallelError(
                "--output-dir {folder!r} cannot be written: give another folder ({reason}).",
                folder=str(self.home),
                reason=error.strerror or error,
            ) from None
        if options.resume and not self.has_checkpoints:
            raise DataParallelError(
                "--resume: no checkpoint in {folder!r}: train from the start.", folder=str(self.checkpoints)
            )
        if not options.resume and self.metrics.exists():
            raise DataParallelError(
                "{folder!r} holds a finished run: give another --output-dir, or remove it.", folder=str(self.home)
            )
        if not options.resume and self.has_checkpoints:
            raise DataParallelError(
                "{folder!r} holds checkpoints of an unfinished run: continue with --resume, remove them, or give "
                "another --output-dir.",
                folder=str(self.home),
            )

        theirs = [name for name in LEFT if (self.home / name).exists()]
        if not options.resume and theirs and not self._fingerprint.exists():
            raise DataParallelError(
                "{folder!r} holds {name!r}, and no run of a recipe: a run would replace it. Give another --output-dir.",
                folder=str(self.home),
                name=theirs[0],
            )

    def begin(self, options: RecipeOptions, task: str, fingerprint: dict) -> None:
        """Make the folder; what was left here before a first checkpoint is removed. On one rank.

        Nothing of a finished run is touched: when it has gone on, it replaces its results.

        Args:
            options: The run's.
            task: What is learnt.
            fingerprint: What a run that goes on from it must have in common.
        """
        if not options.resume:
            for name in LEFT:
                shutil.rmtree(self.home / name, ignore_errors=True)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        _write(self._fingerprint, json.dumps(fingerprint, indent=2))
        if not self.metrics.exists():
            self.write_settings(options, task)

    def require_same(self, own: dict) -> None:
        """Refuse to go on from checkpoints of another training. Nothing is touched.

        Args:
            own: What this run has of a fingerprint.

        Raises:
            DataParallelError: Naming the first thing that differs, and the way out.
        """
        begun = json.loads(self._fingerprint.read_text(encoding="utf-8")) if self._fingerprint.exists() else {}
        other = next((name for name in own if begun.get(name) != own[name]), None)
        if other is not None and isinstance(own[other], dict):
            raise DataParallelError(
                "the {what} of the {split} split are not those that the run in {folder!r} began with: bring "
                "them back, or train from the start in another --output-dir.",
                what=Message("tokens") if other == TOKENS else Message("rows"),
                split=next(split for split in own[other] if begun[other].get(split) != own[other][split]),
                folder=str(self.home),
            )
        if other is not None:
            raise DataParallelError(
                "the run in {folder!r} began with {name}={begun!r}, and this one has {own!r}: give the same, "
                "or train from the start in another --output-dir.",
                folder=str(self.home),
                name=other.replace("_", "-"),
                begun=begun.get(other),
                own=own[other],
            )


def fingerprint(task: Any, data: Any, options: RecipeOptions, model: str) -> dict:
    """What a run that goes on must have in common with its beginning: settings, and a digest of each split's rows.

    Args:
        task: What is learnt.
        data: What ``task.read`` returned.
        options: The run's.
        model: The model that is trained, as ``--model`` names it.
    """
    same = {name: getattr(options, name) for name in ("seed", "max_length", "lora", "packing")}
    rows = {split: digest([rows.to_dict(), data.label_names]) for split, rows in data.splits.items()}
    return {"task": task.name, "model": in_full(model), **same, "rows": rows}


def digest(content: Any) -> str:
    """A number for what JSON can hold."""
    return xxhash.xxh64(json.dumps(content, ensure_ascii=True).encode()).hexdigest()


def _write(path, text):
    """Write a file, whole or not at all."""
    unfinished = path.with_name(f"incomplete-{path.name}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
