"""Tables of texts as they lie on disk or in the hub, one for each split, columns as they are."""

import re
from pathlib import Path

import datasets
import pandas
from huggingface_hub import constants

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.files import SUFFIXES, from_dataset, numbered, read_file
from mindnlp_dp_plugin.recipes.hub import reason_not_to_get
from mindnlp_dp_plugin.recipes.options import RecipeOptions

SPLIT_WORDS = {
    "train": {"train", "training"},
    "dev": {"dev", "valid", "validation", "val", "eval"},
    "test": {"test"},
}
NOT_THERE = Message("{option} {name!r} does not exist: check the path, from {cwd!r}.")


def read_splits(options: RecipeOptions, said: list[dict], tagged: bool = False) -> dict[str, pandas.DataFrame]:
    """All splits of a data set: ``train``, and ``dev`` and ``test`` where there are such.

    Args:
        options: Name it: a file; a folder with one file, or with files whose names say train, dev and test; or a data
            set's name in the hub. They may name files for dev and test, and the encoding of all files.
        said: Gets remarks of what had to be assumed.
        tagged: Whether texts are CoNLL.

    Raises:
        DataParallelError: If it is not there, or cannot be read; the message names the file.
    """
    name, path = options.dataset, Path(options.dataset).expanduser()
    named = {split: getattr(options, f"{split}_file") for split in ("dev", "test")}
    named = {split: [Path(file).expanduser()] for split, file in named.items() if file is not None}
    for split, (file,) in named.items():
        if not file.is_file():
            raise DataParallelError(NOT_THERE, option=f"--{split}-file", name=str(file), cwd=str(Path.cwd()))
    tables = {}
    if path.is_dir():
        named = {**_files_by_split(path), **named}
    elif path.is_file():
        named["train"] = [path]
    elif path.suffix.lower() in SUFFIXES or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name):
        raise DataParallelError(NOT_THERE, option="--dataset", name=name, cwd=str(Path.cwd()))
    else:
        tables = _read_from_hub(name)
    for split, files in named.items():
        tables[split] = _concatenated(files, [read_file(file, said, options.encoding, tagged) for file in files])
    return {split: tables[split] for split in SPLIT_WORDS if split in tables}


def _files_by_split(folder):
    files = sorted(path for path in folder.iterdir() if path.is_file())
    words = {path: set(re.split(r"[._-]", path.name.lower())) for path in files}
    found = {split: [path for path in files if words[path] & known] for split, known in SPLIT_WORDS.items()}
    if len(files) == 1 and not any(found.values()):
        found["train"] = files
    if not found["train"]:
        raise DataParallelError(
            "folder {folder!r} has no file for training ({listed}): name files train, dev and test, or give one file.",
            folder=str(folder),
            listed=", ".join(path.name for path in files) or tr("no data file"),
        )
    for paths in found.values():
        if len({path.suffix for path in paths}) > 1:
            raise DataParallelError(
                "folder {folder!r} has {files}: two kinds of files would be read as twice the rows: keep one.",
                folder=str(folder),
                files=", ".join(path.name for path in paths),
            )
    return {split: paths for split, paths in found.items() if paths}


def _concatenated(files, parts):
    for path, part in zip(files, parts):
        if list(part) != list(parts[0]):
            raise DataParallelError(
                "{path!r} has the columns {names}, but {first!r} has {first_names}: files of one split need the same.",
                path=str(path),
                names=", ".join(part),
                first=str(files[0]),
                first_names=", ".join(parts[0]),
            )
    return pandas.concat(parts) if len(parts) > 1 else parts[0]


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
    named = {split: word for split, words in SPLIT_WORDS.items() for word in words & set(found)}
    if "train" not in named:
        raise DataParallelError(
            "--dataset {name!r} has no split for training: it has {found}.", name=name, found=", ".join(found)
        )
    return {split: numbered(from_dataset(found[word]), word) for split, word in named.items()}
