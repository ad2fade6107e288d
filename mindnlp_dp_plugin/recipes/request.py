"""The input of a prediction, texts, pairs or a file, checked before any rank starts."""

import json
from pathlib import Path
from typing import NamedTuple

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.reading.columns import LABELS, TEXTS, find_texts
from mindnlp_dp_plugin.recipes.reading.formats import SUFFIXES, read_file
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import remark

OUT_SUFFIXES = (".csv", ".jsonl", ".parquet")


class Request(NamedTuple):
    """What a model is to predict.

    Attributes:
        run: Folder of the run.
        texts: One text, or the two of a pair, for each row.
        labels: The true label of each row, as data have it, or None where it is not known; None if no row has one.
        remarks: What was assumed.
        out: File for the predictions.
        batch_size: Rows at a time.
        all_probabilities: Whether that of each class is wanted.
    """

    run: str
    texts: list
    labels: list | None = None
    remarks: list = []
    out: str | None = None
    batch_size: int = 32
    all_probabilities: bool = False

    def save(self, path: Path) -> None:
        """Write it for the ranks."""
        path.write_text(json.dumps(self._asdict()), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Request":
        """Read what ``save`` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def read_run(run: str | Path) -> dict:
    """What a finished run left in its ``metrics.json``.

    Raises:
        DataParallelError: If the folder holds no finished run.
    """
    folder = RunFolder(run)
    for wanted in (folder.metrics, folder.model / "config.json"):
        if not wanted.exists():
            raise DataParallelError(
                f"{str(run)!r} holds no finished run ({wanted.relative_to(folder.home)} is missing): give the "
                "--output-dir of a recipe."
            )
    return json.loads(folder.metrics.read_text(encoding="utf-8"))


def make_request(run: Path, inputs: tuple[str, ...], columns: tuple, label: str | None, encoding, **how) -> Request:
    """Read what is to be predicted.

    Args:
        run: Folder of the run.
        inputs: Texts, for pairs in turn; or one file.
        columns: The text columns of the file, if the user named them.
        label: Its label column, if the user named it.
        encoding: Of the file, if the user named it.
        how: Other attributes of the request.

    Raises:
        DataParallelError: If the run, the texts or the file cannot be used.
    """
    results = read_run(run)
    out = how.get("out")
    if out is not None and Path(out).suffix.lower() not in OUT_SUFFIXES:
        raise DataParallelError(f"--out {str(out)!r} has an unknown suffix: give one of {', '.join(OUT_SUFFIXES)}.")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise DataParallelError(f"--out {str(out)!r}: its folder does not exist.")
    path = Path(inputs[0])
    if len(inputs) == 1 and _is_file(path):
        return _from_file(run, path, results, columns, label, encoding, **how)
    if len(inputs) == 1 and path.suffix.lower() in (*SUFFIXES, ".xls") and not any(map(str.isspace, inputs[0])):
        raise DataParallelError(f"{inputs[0]!r} does not exist: check the path, from {str(Path.cwd())!r}.")
    size = len(results["data"]["text_columns"])
    if len(inputs) % size:
        raise DataParallelError(f"the run was trained on pairs of texts: give two texts for each, not {len(inputs)}.")
    texts = [[as_text(text) for text in inputs[row : row + size]] for row in range(0, len(inputs), size)]
    return Request(str(run), texts, **how)


def _is_file(path):
    try:
        return path.is_file()
    except OSError:  # a text longer than any name of a file
        return False


def _from_file(run, path, results, columns, label, encoding, **how):
    task, trained = get_task(results["task"]), tuple(results["data"]["text_columns"])
    table = read_file(path, encoding, results.get("label_names", []))
    remarks = list(table.remarks)
    (only,) = table.names if len(table.names) == 1 else ("",)
    if only and only.lower() not in (*TEXTS, *trained):
        table.columns = {"text": [only, *table.columns[only]]}
        remarks.append(remark("no_header_of_texts"))
    for option, name in [*(("--text-column", name) for name in columns), ("--label-column", label)]:
        if name is not None and name not in table.columns:
            raise DataParallelError(f"{option} {name!r} is not there: the columns are {', '.join(table.names)}.")
    label = label or _find_label(table, results, task)
    if label is not None and not any(map(as_text, table.columns[label])):
        label = None
    if not columns:
        columns = trained if all(name in table.columns for name in trained) else find_texts(table, label)
    if len(columns) != len(trained):
        kind = "pairs of texts" if len(trained) == 2 else "single texts"
        raise DataParallelError(
            f"the run was trained on {kind} ({', '.join(trained)}): name {len(trained)} --text-column among "
            f"{', '.join(table.names)}."
        )
    texts = [[as_text(cell) for cell in row] for row in zip(*(table.columns[name] for name in columns))]
    kind = "columns_found" if label else "text_columns_found"
    remarks.append(remark(kind, texts=list(columns), label=label))
    labels = None
    if label is not None:
        labels = [task.read_label(cell, results) for cell in table.values(label)]
        if unknown := labels.count(None):
            remarks.append(remark("unknown_labels", rows=unknown))
    return Request(str(run), texts, labels, remarks, **how)


def _find_label(table, results, task):
    """The column of the true labels, if there is one."""
    if (trained := results["data"]["label_column"]) in table.columns:
        return trained
    for name in table.names:
        if name.lower() in LABELS:
            cells = [cell for cell in table.values(name) if as_text(cell)]
            if cells and sum(task.read_label(cell, results) is not None for cell in cells) > 0.5 * len(cells):
                return name
    return None
