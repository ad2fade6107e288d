"""The input of a prediction, texts, pairs or a file, checked before any rank starts."""

import os
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.columns import Columns, find_texts, require_named
from mindnlp_dp_plugin.recipes.conll import TAGS
from mindnlp_dp_plugin.recipes.files import SUFFIXES, as_text, is_list, one_text, place, read_file
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tables import columns_found
from mindnlp_dp_plugin.recipes.tasks import Task, get_task
from mindnlp_dp_plugin.recipes.words import remark


def make_request(run: Path, inputs: tuple[str, ...], columns: tuple, label: str | None, encoding, **how) -> dict:
    """Read what is to be predicted.

    Args:
        run: Folder of the run.
        inputs: Texts, for pairs in turn; or one file.
        columns: The text columns of the file, if the user named them.
        label: Its label column, if the user named it.
        encoding: Of the file, if the user named it.
        how: The command's other options, which the request holds, too.

    Returns:
        ``texts``: of each row one text, or the two of a pair, or the words of a sentence; ``labels``: of each row as
        data have it, None where it is not known, None if no row has one; and ``remarks``.

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
    if out is not None and Path(out).exists() and os.path.isfile(first) and Path(out).samefile(first):
        raise DataParallelError("--out {out!r} is the file that is asked about: give another.", out=str(out))
    if not others and os.path.isfile(first):  # of a long text Path.is_file() raises
        return {"run": str(run), **_read_asked(task, Path(first), results, columns, label, encoding), **how}
    if not others and first.lower().endswith((*SUFFIXES, ".xls")) and not any(map(str.isspace, first)):
        raise DataParallelError(
            "{path!r} does not exist: check the path, from {cwd!r}.", path=first, cwd=str(Path.cwd())
        )
    size = len(results["data"]["text_columns"])
    if len(inputs) % size:
        raise DataParallelError(
            "the run was trained on pairs of texts: give two texts for each, not {count}.", count=len(inputs)
        )
    rows = [tuple(map(str.strip, inputs[at : at + size])) for at in range(0, len(inputs), size)]
    texts = [list(task.as_row(row, results)) for row in rows]
    return {"run": str(run), "texts": texts, "labels": None, "remarks": [], **how}


def _read_asked(task: Task, path: Path, results: dict, texts: tuple, label: str | None, encoding: Any):
    """The texts of a file, the labels of its rows if it has any, and remarks. Columns are called as in training."""
    trained = tuple(results["data"]["text_columns"])
    said = []
    table = read_file(path, said, encoding, task.reads_conll, results.get("label_names", []))
    require_named(table, texts, label)
    texts = texts or (trained if all(name in table for name in trained) else find_texts(table, label))
    if len(texts) != len(trained):
        raise DataParallelError(
            "the run was trained on {trained}: name as many --text-column among {names}.",
            trained=", ".join(trained),
            names=", ".join(table),
        )
    label = label or next((name for name in (results["data"]["label_column"], "label", TAGS) if name in table), None)
    if label is not None and not any(map(as_text, table[label])):
        label = None
    rows = [_row(task, where, cells, results) for where, *cells in table[list(texts)].itertuples(name=None)]
    asked = {"texts": rows, "labels": None, "remarks": [*said, columns_found(Columns(texts, label))]}
    if label is None:
        return asked
    labels = [task.read_label(cell, results) for cell in table[label]]
    labels = [own if not is_list(row[0]) or own and len(own) == len(row[0]) else None for own, row in zip(labels, rows)]
    if unknown := labels.count(None):
        remarks = asked["remarks"]
        remarks.append(remark("rows without a label that the model knows: {rows}; they are not scored", rows=unknown))
    return {**asked, "labels": labels}


def _row(task, where, cells, results):
    try:
        cells = tuple(cell if task.takes_lists and is_list(cell) else one_text(cell) for cell in cells)
        return list(task.as_row(cells, results))
    except ValueError as error:
        raise DataParallelError("{place}: {error}.", place=place(where), error=error) from None
