"""Tables of texts as they lie on disk or in the hub, one ``datasets.Dataset`` for each split, columns as they are."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import datasets
import pandas
import pyarrow
import pyarrow.parquet

from mindnlp_dp_plugin.errors import DataParallelError

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val", "eval"),
    "test": ("test",),
}


def read_splits(name: str) -> dict[str, datasets.Dataset]:
    """All splits of a data set.

    Args:
        name: A file (.csv, .tsv, .json, .jsonl, .parquet, or .txt with lines of ``<label> <sentence>``); a folder with
            one such file, or with files whose names say train, dev and test; or a data set's name in the hub.

    Returns:
        ``train``, and ``dev`` and ``test`` where there are such.

    Raises:
        DataParallelError: If it is not there, or cannot be read; the message names the file, and the line where one
            is to blame.
    """
    path = Path(name)
    if path.is_dir():
        return {split: _concatenate(files) for split, files in _files_by_split(path).items()}
    if path.is_file():
        return {"train": read_file(path)}
    if path.suffix.lower() in READERS or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name):
        raise DataParallelError(f"--dataset {name!r} does not exist: check the path, from {str(Path.cwd())!r}.")
    return _read_from_hub(name)


def read_file(path: Path) -> datasets.Dataset:
    """The rows of one file.

    Raises:
        DataParallelError: If it is empty, or cannot be read.
    """
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise DataParallelError(f"{str(path)!r} is of a kind that is not known: give one of {', '.join(READERS)}.")
    try:
        rows = read(path)
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataParallelError(
            f"{str(path)!r} is not UTF-8 (line {line}): convert it, for example with `iconv -f gb18030 -t utf-8`."
        ) from None
    except (pandas.errors.ParserError, json.JSONDecodeError, pyarrow.ArrowException, OSError, _BadLine) as error:
        raise DataParallelError(f"{str(path)!r} cannot be read: {error}; mend or remove that part.") from None
    except pandas.errors.EmptyDataError:
        rows = []
    if len(rows) == 0:
        raise DataParallelError(f"{str(path)!r} has no rows: give a file with a text and a label in each row.")
    return rows


class _BadLine(ValueError):
    """A line that is not what its file consists of."""


def _read_csv(path, **options):
    # All as text and nothing as missing: labels such as 01 or None stay what they are.
    frame = pandas.read_csv(path, dtype=str, keep_default_na=False, **options)
    return _from_columns({str(name): frame[name].tolist() for name in frame.columns})


def _read_tsv(path):
    return _read_csv(path, sep="\t", quoting=3)  # csv.QUOTE_NONE: in tab-separated files quotes are text


def _read_json(path):
    text = path.read_text(encoding="utf-8-sig")
    if text.lstrip().startswith("["):
        rows = json.loads(text)
    else:
        rows = [_parse_line(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise _BadLine("it holds other things than objects; give a list of objects, or one object a line")
    names = dict.fromkeys(name for row in rows for name in row)
    return _from_columns({name: [row.get(name) for row in rows] for name in names})


def _parse_line(number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise _BadLine(f"line {number}: {error.msg}") from None


def _read_labelled_lines(path):
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    parts = [line.strip().split(maxsplit=1) for line in lines]
    return _from_columns({"label": [part[0] for part in parts], "text": [" ".join(part[1:]) for part in parts]})


def _read_parquet(path):
    return datasets.Dataset(pyarrow.parquet.read_table(path))


def _from_columns(columns):
    """Values that are neither text, number nor missing become text, so that any column can be held."""
    simple = (str, int, float, type(None))
    return datasets.Dataset.from_dict(
        {
            name: values
            if len({type(value) for value in values} - {type(None)}) <= 1
            and all(isinstance(value, simple) for value in values)
            else [value if value is None else str(value) for value in values]
            for name, values in columns.items()
        }
    )


READERS = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
    ".txt": _read_labelled_lines,
}


def _files_by_split(folder) -> dict[str, list[Path]]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)
    found = {split: [path for path in files if _says(words, path)] for split, words in SPLIT_WORDS.items()}
    found = {split: paths for split, paths in found.items() if paths}
    if found.get("train"):
        return found
    if len(files) == 1 and not found:
        return {"train": files}
    listed = ", ".join(path.name for path in files) or "no data file"
    raise DataParallelError(
        f"folder {str(folder)!r} has no file for training ({listed}): name files train, dev and test, or give one file."
    )


def _says(words: Iterable[str], path) -> bool:
    return bool(set(re.split(r"[._-]", path.name.lower())) & set(words))


def _concatenate(files):
    parts = [read_file(path) for path in files]
    for path, part in zip(files, parts):
        if part.column_names != parts[0].column_names:
            raise DataParallelError(
                f"{str(path)!r} has the columns {', '.join(part.column_names)}, but {str(files[0])!r} has "
                f"{', '.join(parts[0].column_names)}: files of one split need the same."
            )
    return datasets.concatenate_datasets(parts)


def _read_from_hub(name):
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the hub's many ways to say no
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataParallelError(
            f"--dataset {name!r} is no file or folder here, and the hub did not give it ({reason[0]}): check the name "
            "and the network, or give a file."
        ) from None
    splits = {split: found[word] for split, words in SPLIT_WORDS.items() for word in words if word in found}
    if "train" not in splits:
        raise DataParallelError(f"--dataset {name!r} has no split for training: it has {', '.join(found)}.")
    return splits
