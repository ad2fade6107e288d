"""Write predictions as csv, jsonl, parquet or xlsx, and tags as CoNLL."""

import json
from pathlib import Path

import datasets
import pandas

from mindnlp_dp_plugin.recipes.conll import TAGS, TOKENS


def write_predictions(path: Path, rows: list[dict], separator: str = ";") -> None:
    """Write rows in the format that the suffix names.

    Args:
        path: The file: .csv, .jsonl, .parquet, .xlsx, or of tags .conll or .txt.
        rows: What is in each column.
        separator: What stands between the items of a list in a cell of csv or xlsx; one with it in an item is printed.
    """
    kind = path.suffix.lower()
    if kind in (".conll", ".txt"):
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                file.writelines(f"{word}\t{tag}\n" for word, tag in zip(row[TOKENS], row[TAGS] or []))
                file.write("\n")
        return
    if kind == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(str(path))
        return
    if kind == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return
    frame = pandas.DataFrame(rows, dtype=object).map(
        lambda value: _in_a_cell(value, separator) if isinstance(value, list) else value
    )
    if kind == ".csv":
        frame.to_csv(path, index=False)
    else:
        _write_xlsx(path, frame)


def _in_a_cell(items, separator):
    parts = list(map(str, items))
    return str(items) if any(separator in part for part in parts) else separator.join(parts)


def _write_xlsx(path, frame):
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    legal = frame.map(lambda value: ILLEGAL_CHARACTERS_RE.sub("", value) if isinstance(value, str) else value)
    with pandas.ExcelWriter(path, engine="openpyxl") as writer:
        legal.to_excel(writer, sheet_name="predictions", index=False)
        for cell in (cell for row in writer.sheets["predictions"].iter_rows() for cell in row):
            if cell.data_type == "f":
                cell.data_type = "s"  # a text that begins with "=" is no formula
