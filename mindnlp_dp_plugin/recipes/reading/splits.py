"""Tables of texts as they lie on disk or in the hub, one for each split, columns as they are."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import datasets
from huggingface_hub import constants

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.hub import reason_not_to_get
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.formats import SUFFIXES, from_dataset, read_file
from mindnlp_dp_plugin.recipes.reading.table import Table

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval"),
    "test": ("test",),
}
ALL_WORDS = {word for words in SPLIT_WORDS.values() for word in words}


def read_splits(
    options: RecipeOptions,
    read: Callable[[Path, str | None], Table] = read_file,
    suffixes: tuple[str, ...] = SUFFIXES,
) -> dict[str, Table]:
    """All splits of a data set.

    Args:
        options: Name it: a file (csv with any separator, tsv, json, jsonl, parquet, xlsx, or lines of
            ``<label> <text>``); a folder with one such file, or with files whose names say train, dev and test; or a
            data set's name in the hub. They may name files for dev and test, and the encoding of all files.
        read: Reads a file.
        suffixes: Those of files that are data.

    Returns:
        ``train``, and ``dev`` and ``test`` where there are such.

    Raises:
        DataParallelError: If it is not there, or cannot be read; the message names the file, and the line where one
            is to blame.
    """
    name, encoding = options.dataset, options.encoding
    named = {split: [_named(getattr(options, f"{split}_file"), split)] for split in ("dev", "test")}
    named = {split: files for split, files in named.items() if files != [None]}
    path = Path(name).expanduser()
    if path.is_dir() or path.is_file():
        found = {**(_files_by_split(path, suffixes) if path.is_dir() else {"train": [path]}), **named}
        return {split: _concatenate(files, [read(file, encoding) for file in files]) for split, files in found.items()}
    if path.suffix.lower() in suffixes or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name):
        raise DataParallelError(
            "--dataset {name!r} does not exist: check the path, from {cwd!r}.", name=name, cwd=str(Path.cwd())
        )
    return {**_read_from_hub(name), **{split: read(file, encoding) for split, (file,) in named.items()}}


def _named(name, split):
    """The file that the user named for a split, if any."""
    if name is None:
        return None
    path = Path(name).expanduser()
    if not path.is_file():
        raise DataParallelError(
            "--{split}-file {name!r} does not exist: check the path, from {cwd!r}.",
            split=split,
            name=name,
            cwd=str(Path.cwd()),
        )
    return path


def _files_by_split(folder, suffixes) -> dict[str, list[Path]]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)
    if not files:  # data are also called TREC.train.all
        files = sorted(path for path in folder.iterdir() if path.is_file() and _says(ALL_WORDS, path))
    found = {split: [path for path in files if _says(words, path)] for split, words in SPLIT_WORDS.items()}
    found = {split: paths for split, paths in found.items() if paths}
    if found.get("train"):
        return found
    if len(files) == 1 and not found:
        return {"train": files}
    listed = ", ".join(path.name for path in files) or tr("no data file")
    raise DataParallelError(
        "folder {folder!r} has no file for training ({listed}): name files train, dev and test, or give one file.",
        folder=str(folder),
        listed=listed,
    )


def _says(words: Iterable[str], path) -> bool:
    return bool(set(re.split(r"[._-]", path.name.lower())) & set(words))


def _concatenate(files, parts):
    whole = parts[0]
    for path, part in zip(files[1:], parts[1:]):
        if part.names != whole.names:
            raise DataParallelError(
                "{path!r} has the columns {names}, but {first!r} has {first_names}: files of one split need the same.",
                path=str(path),
                names=", ".join(part.names),
                first=str(files[0]),
                first_names=", ".join(whole.names),
            )
        for name, values in part.columns.items():
            whole.columns[name] += values
        whole.remarks += part.remarks
        whole.lines = whole.lines + part.lines if whole.lines and part.lines else []
        whole.files += part.files
    return whole


def _read_from_hub(name):
    if not isinstance(reason_not_to_get(f"{constants.ENDPOINT}/api/datasets/{name}"), int | None):
        # What is in the cache can be had; for all else the libraries would try again for half a minute.
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the hub's many ways to say no
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataParallelError(
            "--dataset {name!r} is no file or folder here, and the hub did not give it ({reason}): check the name and "
            "the network, or give a file.",
            name=name,
            reason=reason[0],
        ) from None
    splits = {
        split: from_dataset(found[word]) for split, words in SPLIT_WORDS.items() for word in words if word in found
    }
    if "train" not in splits:
        raise DataParallelError(
            "--dataset {name!r} has no split for training: it has {found}.", name=name, found=", ".join(found)
        )
    return splits
