"""Write predictions as csv, jsonl, parquet or xlsx."""

import csv
import json
from pathlib import Path


def write_predictions(path: Path, rows: list[dict], separator: str = ";") -> None:
    """Write rows in the format that the suffix names; whole or not at all.

    Args:
        path: The file, with a suffix of ``WRITERS``.
        rows: What is in each column.
        separator: What stands between the items of a list in a cell of csv or xlsx.
    """
    unfinished = path.with_name(f"incomplete-{path.name}")
    WRITERS[path.suffix.lower()](unfinished, rows, separator)
    unfinished.replace(path)


def _write_parquet(path, rows, _):
    import datasets

    datasets.Dataset.from_list(rows).to_parquet(str(path))


def _write_jsonl(path, rows, _):
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_csv(path, rows, separator):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: _cell(value, separator) for name, value in row.items()} for row in rows)


def _write_xlsx(path, rows, separator):
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("predictions")

    def cell(value):
        value = _cell(value, separator)
        if not isinstance(value, str):
            return value
        text = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", value))
        text.data_type = "s"  # a text that begins with "=" is no formula
        return text

    sheet.append(list(rows[0]))
    for row in rows:
        sheet.append([cell(value) for value in row.values()])
    book.save(path)


def _cell(value, separator):
    return separator.join(map(str, value)) if isinstance(value, list) else value


WRITERS = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet, ".xlsx": _write_xlsx}
