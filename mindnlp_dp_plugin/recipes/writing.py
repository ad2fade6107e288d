"""Write predictions as csv, jsonl or parquet."""

import csv
import json
from pathlib import Path


def write_predictions(path: Path, rows: list[dict], separator: str = ";") -> None:
    """Write rows as csv, jsonl or parquet, by the suffix; whole or not at all.

    Args:
        path: The file.
        rows: What is in each column.
        separator: What stands between the items of a list in a csv.
    """
    unfinished = path.with_name(f"incomplete-{path.name}")
    if path.suffix.lower() == ".parquet":
        import datasets

        datasets.Dataset.from_list(rows).to_parquet(str(unfinished))
    else:
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            if path.suffix.lower() == ".jsonl":
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            else:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows({name: _cell(value, separator) for name, value in row.items()} for row in rows)
    unfinished.replace(path)


def _cell(value, separator):
    return separator.join(map(str, value)) if isinstance(value, list) else value
