"""The input of a prediction, texts, pairs or a file, checked before any rank starts."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pandas

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.reading.cells import as_text, is_list
from mindnlp_dp_plugin.recipes.reading.columns import LABELS, TAG_NAMES, TEXTS, find_texts, require_named
from mindnlp_dp_plugin.recipes.reading.files import SUFFIXES, numbered, place, read_file
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tables import COLUMNS_FOUND, TEXT_COLUMNS_FOUND
from mindnlp_dp_plugin.recipes.tasks import Task, get_task
from mindnlp_dp_plugin.recipes.words import remark


class Request(NamedTuple):
    """What a model is to predict.

    Attributes:
        run: Folder of the run.
        texts: One text, or the two of a pair, or the words of a sentence, for each row.
        labels: The true label of each row, as data have it, or None where it is not known; None if no row has one.
        remarks: What was assumed.
        out: File for the predictions.
        batch_size: Rows at a time.
        all_probabilities: Whether that of each class is wanted.
        max_new_tokens: The longest answer of a language model; None: its own.
    """

    run: str
    texts: list
    labels: list | None = None
    remarks: list = []
    out: str | None = None
    batch_size: int = 32
    all_probabilities: bool = False
    max_new_tokens: int | None = None


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
    results = RunFolder(run).results()
    task, out = get_task(results["task"]), how.get("out")
    if out is not None and Path(out).suffix.lower() not in task.out_suffixes:
        raise DataParallelError(
            "--out {out!r} has an unknown suffix: give one of {suffixes}.",
            out=str(out),
            suffixes=", ".join(task.out_suffixes),
        )
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise DataParallelError("--out {out!r}: its folder does not exist.", out=str(out))
    if how.get("max_new_tokens") is not None and not task.generates:
        raise DataParallelError(
            "--max-new-tokens {max_new_tokens} is for language models, and this run's task is {task}: leave it out.",
            max_new_tokens=how["max_new_tokens"],
            task=task.name,
        )
    first, *others = inputs
    if not others and os.path.isfile(first):  # of a long text Path.is_file() raises
        return Request(str(run), *_read_asked(task, Path(first), results, columns, label, encoding), **how)
    if not others and first.lower().endswith((*SUFFIXES, ".xls")) and not any(map(str.isspace, first)):
        raise DataParallelError(
            "{path!r} does not exist: check the path, from {cwd!r}.", path=first, cwd=str(Path.cwd())
        )
    size = len(results["data"]["text_columns"])
    if len(inputs) % size:
        raise DataParallelError(
            "the run was trained on pairs of texts: give two texts for each, not {count}.", count=len(inputs)
        )
    texts = [tuple(map(str.strip, inputs[at : at + size])) for at in range(0, len(inputs), size)]
    return Request(str(run), [list(task.as_row(row, results)) for row in texts], **how)


def _read_asked(task: Task, path: Path, results: dict, columns: tuple, label: str | None, encoding: Any):
    """The texts of a file, the labels of its rows if it has any, and remarks."""
    trained, remarks = tuple(results["data"]["text_columns"]), []
    table = read_file(path, encoding, remarks, results.get("label_names", []), task.reads_conll)
    lists = [name for name in table if task.takes_lists and any(map(is_list, table[name]))]
    if len(table.columns) == 1 and table.columns[0].lower() not in (*TEXTS, *trained, *lists):
        (only,) = table
        table = numbered(pandas.DataFrame({"text": [only, *table[only]]}, dtype=object), path.name)
        remarks.append(remark("no header: the first line is taken as a text"))
    require_named(table, columns, label)
    label = label or _find_label(table, results, task)
    if label is not None and not any(map(as_text, table[label])):
        label = None
    if not columns and not all(name in table for name in trained):
        columns = tuple(name for name in lists if name != label)[:1] or find_texts(table, label)
    columns = columns or trained
    if len(columns) != len(trained):
        raise DataParallelError(
            "the run was trained on {trained}: name as many --text-column among {names}.",
            trained=", ".join(trained),
            names=", ".join(table),
        )
    texts = [_row(task, where, cells, results) for where, *cells in table[list(columns)].itertuples(name=None)]
    if label is None:
        return texts, None, [*remarks, remark(TEXT_COLUMNS_FOUND, texts=list(columns))]
    remarks.append(remark(COLUMNS_FOUND, texts=list(columns), label=label))
    labels = [task.read_label(cell, results) for cell in table[label]]
    labels = [
        own if not is_list(row[0]) or own and len(own) == len(row[0]) else None for own, row in zip(labels, texts)
    ]
    if unknown := labels.count(None):
        remarks.append(remark("rows without a label that the model knows: {rows}; they are not scored", rows=unknown))
    return texts, labels, remarks


def _row(task, where, cells, results):
    cells = tuple(cell if task.takes_lists and is_list(cell) else as_text(cell) for cell in cells)
    try:
        return list(task.as_row(cells, results))
    except ValueError as error:
        raise DataParallelError("{place}: {error}.", place=place(where), error=error) from None


def _find_label(table, results, task):
    """The column of the true labels, if there is one."""
    if (trained := results["data"]["label_column"]) in table:
        return trained
    for name in table:
        if name.lower() in (*LABELS, *TAG_NAMES):
            cells = [cell for cell in table[name] if as_text(cell)]
            if cells and sum(task.read_label(cell, results) is not None for cell in cells) > 0.5 * len(cells):
                return name
    return None
