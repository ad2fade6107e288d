"""Files of texts to predict, with or without their labels."""

from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.reading.columns import LABELS, TEXTS, find_texts, require_named
from mindnlp_dp_plugin.recipes.reading.files import read_file
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.tables import COLUMNS_FOUND, TEXT_COLUMNS_FOUND
from mindnlp_dp_plugin.recipes.words import remark

UNKNOWN_LABELS = Message("rows without a label that the model knows: {rows}; they are not scored")


def read_asked_texts(
    task, path: Path, results: dict, columns: tuple, label: str | None, encoding: str | None
) -> tuple[list, list | None, list[dict]]:
    """The texts of a file, their labels if it has any, and remarks.

    Args:
        task: Reads labels.
        path: The file.
        results: Of the run: ``metrics.json``.
        columns: The text columns, if the user named them.
        label: The label column, if the user named it.
        encoding: Of the file, if the user named it.

    Returns:
        For each row its text, or the two of a pair; for each row the label as data have it, None where it is not known,
        or None if no row has one; and what was assumed.

    Raises:
        DataParallelError: If the file cannot be used.
    """
    trained = tuple(results["data"]["text_columns"])
    table = read_file(path, encoding, results.get("label_names", []))
    remarks = list(table.remarks)
    if len(table.names) == 1 and table.names[0].lower() not in (*TEXTS, *trained):
        (only,) = table.names
        table.columns = {"text": [only, *table.columns[only]]}
        remarks.append(remark(Message("no header: the first line is taken as a text")))
    require_named(table, columns, label)
    label = label or _find_label(table, results, task)
    if label is not None and not any(map(as_text, table.columns[label])):
        label = None
    if not columns:
        columns = trained if all(name in table.columns for name in trained) else find_texts(table, label)
    if len(columns) != len(trained):
        raise DataParallelError(
            "the run was trained on {trained}: name as many --text-column among {names}.",
            trained=", ".join(trained),
            names=", ".join(table.names),
        )
    cells = zip(*(map(as_text, table.columns[name]) for name in columns))
    texts = [list(task.as_row(row, results)) for row in cells]
    if label is None:
        return texts, None, [*remarks, remark(TEXT_COLUMNS_FOUND, texts=list(columns))]
    remarks.append(remark(COLUMNS_FOUND, texts=list(columns), label=label))
    labels = [task.read_label(cell, results) for cell in table.values(label)]
    if unknown := labels.count(None):
        remarks.append(remark(UNKNOWN_LABELS, rows=unknown))
    return texts, labels, remarks


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
