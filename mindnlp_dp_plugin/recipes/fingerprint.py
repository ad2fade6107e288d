"""What a run that goes on must have in common with its beginning: rows, splits, seed, model and tokens."""

import json
from typing import Any

import xxhash

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.options import RecipeOptions, in_full
from mindnlp_dp_plugin.recipes.run_folder import RunFolder, write_json

ROWS, TOKENS = "rows", "tokenizer"


def fingerprint(task: Any, data: Any, options: RecipeOptions, model: str) -> dict:
    """The options that a checkpoint depends on, and a digest of the rows of each split.

    Args:
        task: What is learnt.
        data: What ``task.read`` returned.
        options: The run's.
        model: The model that is trained, as ``--model`` names it.
    """
    return {
        "task": task.name,
        "seed": options.seed,
        "model": in_full(model),
        "max_length": options.max_length,
        "lora": options.lora,
        "packing": task.packs(options),
        ROWS: {split: digest([rows.to_dict(), data.label_names]) for split, rows in data.splits.items()},
    }


def digest(content: Any) -> str:
    """A number for what JSON can hold."""
    return xxhash.xxh64(json.dumps(content, ensure_ascii=True).encode()).hexdigest()


def require_same(folder: RunFolder, own: dict) -> None:
    """Refuse to go on from checkpoints of another training. Nothing is touched.

    Args:
        folder: With the checkpoints.
        own: What this run has of a fingerprint.

    Raises:
        DataParallelError: Naming the first thing that differs, and the way out.
    """
    begun = _of_checkpoints(folder)
    for name in own:
        if name not in begun or begun[name] == own[name]:
            continue
        if name == ROWS:
            raise DataParallelError(
                "--resume: the rows of the {split} split are not those that the run in {folder!r} began with: bring "
                "them back, or train from the start in another --output-dir.",
                split=next(split for split in own[ROWS] if begun[ROWS].get(split) != own[ROWS][split]),
                folder=str(folder.home),
            )
        if name == TOKENS:
            raise DataParallelError(
                "--resume: the tokenizer is not the one that the run in {folder!r} began with: bring the model folder "
                "back, or train from the start in another --output-dir.",
                folder=str(folder.home),
            )
        raise DataParallelError(
            "--resume: the run in {folder!r} began with {name}={begun!r}, and this one has {own!r}: give the same, or "
            "train from the start in another --output-dir.",
            folder=str(folder.home),
            name=name.replace("_", "-"),
            begun=begun[name],
            own=own[name],
        )


def keep(folder: RunFolder, own: dict) -> None:
    """Write it beside the checkpoints to come. On one rank."""
    write_json(folder.fingerprint, own)


def _of_checkpoints(folder):
    """What the run began with; of runs before there were fingerprints, what their settings say."""
    if folder.fingerprint.exists():
        return json.loads(folder.fingerprint.read_text(encoding="utf-8"))
    found = folder.settings_here()
    return {name: found[name] for name in ("seed", "model", "max_length", "lora") if name in found}
