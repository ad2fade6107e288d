"""What a run that goes on must have in common with its beginning: rows, splits, seed, model and tokens."""

import json
from typing import Any

import xxhash

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import RecipeOptions, in_full
from mindnlp_dp_plugin.recipes.run_folder import RunFolder

TOKENS = "tokenizer"


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
        "packing": options.packing,
        "rows": {split: digest([rows.to_dict(), data.label_names]) for split, rows in data.splits.items()},
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
    begun = folder.begun_with()
    other = next((name for name in own if name in begun and begun[name] != own[name]), None)
    if other is not None and isinstance(own[other], dict):
        raise DataParallelError(
            "--resume: the {what} of the {split} split are not those that the run in {folder!r} began with: bring them "
            "back, or train from the start in another --output-dir.",
            what=Message("tokens") if other == TOKENS else Message("rows"),
            split=next(split for split in own[other] if begun[other].get(split) != own[other][split]),
            folder=str(folder.home),
        )
    if other is not None:
        raise DataParallelError(
            "--resume: the run in {folder!r} began with {name}={begun!r}, and this one has {own!r}: give the same, or "
            "train from the start in another --output-dir.",
            folder=str(folder.home),
            name=other.replace("_", "-"),
            begun=begun[other],
            own=own[other],
        )
