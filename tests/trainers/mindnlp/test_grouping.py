"""``group_by_length=True`` in one process; on ranks it is among the oracle's scenarios."""

from types import SimpleNamespace

import pytest
from mindspore import dataset as ds

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length
from tests.data.test_length_grouping import PADDING, Texts, deal

ARGUMENTS = SimpleNamespace(group_by_length=True, length_column_name="length", seed=3, disable_tqdm=True)


def shard(lengths):
    rows = ds.GeneratorDataset(Texts(lengths), ["input_ids", "length"]).project(["input_ids"])
    batches = rows.batch(4, per_batch_map=PADDING, input_columns=PADDING.columns)
    return shard_by_length(batches, ARGUMENTS, current())


@pytest.mark.parametrize("lengths", [[1 + row * 7 % 10 for row in range(33)], [5] * 33], ids=["many", "one"])
def test_rows_are_grouped_and_padding_done_too_early_is_pointed_out(lengths, caplog):
    read = [batch["input_ids"][:, 0].tolist() for batch in shard(lengths).create_dict_iterator(output_numpy=True)]
    assert [read] == deal(lengths, 1, 4, seed=3)
    assert ("nothing to group: all rows of train_dataset have length 5" in caplog.text) == (len(set(lengths)) == 1)
