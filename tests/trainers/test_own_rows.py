"""Labels that count the rows of a rank: in each batch, and in none of its columns, they are no classes."""

import numpy as np
import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.step.own_rows import OwnRows


def scores_of(rows):
    return np.zeros((rows, rows), np.float32)


@pytest.mark.parametrize(("rows", "batches"), [(4, 3), (8, 1), (32, 1)])
def test_they_are_refused_once_it_is_no_chance(rows, batches):
    looked, batch = OwnRows(), {"input_ids": np.ones((rows, 5), np.int32)}
    for _ in range(batches - 1):
        looked.require_others(scores_of(rows), np.arange(rows), batch)
    with pytest.raises(DataParallelError, match=f"its labels are 0 to {rows - 1} for the {rows} rows"):
        looked.require_others(scores_of(rows), np.arange(rows), batch)


def columns(rows, **others):
    return {"input_ids": np.ones((rows, 5), np.int32), **others}


@pytest.mark.parametrize(
    ("scores", "labels", "batch"),
    [
        pytest.param(scores_of(8), np.arange(8), columns(8, labels=np.arange(8)), id="of a column"),
        pytest.param(scores_of(16), np.arange(16), columns(8), id="of all ranks"),
        pytest.param(np.zeros((8, 9), np.float32), np.arange(8), columns(8), id="among more classes"),
        pytest.param(scores_of(2), np.arange(2), columns(2), id="of a few rows"),
        pytest.param(scores_of(8), np.eye(8, dtype=np.float32), columns(8), id="shares"),
        pytest.param(np.zeros(3, np.float32), np.array(1), columns(8), id="of one row"),
    ],
)
def test_others_are_classes(scores, labels, batch):
    looked = OwnRows()
    for _ in range(20):
        looked.require_others(scores, labels, batch)


@pytest.mark.parametrize(("rows", "labels"), [(8, np.arange(8)[::-1]), (8, np.arange(16))])
def test_what_was_another_loss_once_is_not_looked_at_again(rows, labels):
    looked = OwnRows()
    looked.require_others(scores_of(len(labels)), labels, columns(rows))
    for _ in range(20):
        looked.require_others(scores_of(8), np.arange(8), columns(8))
