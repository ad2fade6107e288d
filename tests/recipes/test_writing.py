"""Files of predictions."""

import openpyxl
import pytest

from mindnlp_dp_plugin.recipes.files import read_file
from mindnlp_dp_plugin.recipes.label_sets import names_in, parse
from mindnlp_dp_plugin.recipes.writing import write_predictions


def test_predictions_in_a_workbook(tmp_path):
    rows = [
        {"text": "=1+1", "label": "good", "probability": 0.75},
        {"text": "a\x01b\n中文", "label": "bad", "probability": 1.0},
    ]
    write_predictions(tmp_path / "labels.xlsx", [{**row, "all": ["a", "b"]} for row in rows])
    (sheet,) = openpyxl.load_workbook(tmp_path / "labels.xlsx").worksheets
    assert list(sheet.iter_rows(values_only=True)) == [
        ("text", "label", "probability", "all"), ("=1+1", "good", 0.75, "a;b"), ("ab\n中文", "bad", 1, "a;b"),
    ]  # fmt: skip
    assert sheet["A2"].data_type == "s", "no formula"
    assert len(read_file(tmp_path / "labels.xlsx", [])) == 2


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_classes_that_hold_the_separator_are_read_again_as_they_were(tmp_path, suffix):
    labels = [["a", "b; c"], ["a", "b"], []]
    write_predictions(tmp_path / f"labels.{suffix}", [{"text": "x", "labels": each} for each in labels])
    cells = read_file(tmp_path / f"labels.{suffix}", [])["labels"]
    assert [names_in(parse(cell) or [], ";") for cell in cells] == labels
