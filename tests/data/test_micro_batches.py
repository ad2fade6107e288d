"""Whatever ranks compute them, the micro-batches of a step hold what the ranks of as many would read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore.dataset import DistributedSampler, GeneratorDataset

from mindnlp_dp_plugin.data import shard, shard_micro_batches
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError


@st.composite
def readings(draw):
    """A data set, whose rows are their numbers; how it is read; a number of micro-batches."""
    num_rows, batch_size = draw(st.integers(1, 60)), draw(st.integers(1, 5))
    num = draw(st.sampled_from([1, 2, 3, 4, 6]))
    lengths = draw(st.none() | st.just(np.arange(num_rows) % 7))
    by_batch, drops = draw(st.booleans()) and lengths is None, draw(st.booleans())
    source = GeneratorDataset(list(range(num_rows)), ["row"], shuffle=draw(st.booleans()))
    if by_batch:
        source = source.filter(lambda row: True, ["row"])
    return source.batch(batch_size, drop_remainder=drops), num, lengths, draw(st.integers(0, 3))


def rows_of(sharded, epoch, skipped=0):
    sharded.set_epoch(epoch)
    sharded.start_at(epoch, skipped)
    batches = sharded.create_dict_iterator(num_epochs=1, output_numpy=True)
    return [batch["row"].tolist() for batch in batches]


@settings(deadline=None, max_examples=25)
@given(readings(), st.data())
def test_ranks_deal_the_same_micro_batches_out(reading, data):
    dataset, num, lengths, epoch = reading
    virtual = [rows_of(shard(dataset, num, number, 5, lengths), epoch) for number in range(num)]
    num_steps = len(virtual[0])
    assert all(len(batches) == num_steps for batches in virtual)
    ranks = data.draw(st.sampled_from([size for size in range(1, num + 1) if num % size == 0]))
    begin = data.draw(st.integers(0, max(num_steps - 1, 0)))
    for rank in range(ranks):
        mine = MicroBatches(num, ranks, rank).mine
        dealt = shard_micro_batches(dataset, num, mine, 5, lengths)
        assert dealt.num_steps == num_steps * len(mine)
        expected = [virtual[number][step] for step in range(begin, num_steps) for number in mine]
        assert rows_of(dealt, epoch, begin * len(mine)) == expected


def test_as_many_ranks_read_on():
    dataset = GeneratorDataset(list(range(24)), ["row"], shuffle=True).batch(2)
    dealt = shard_micro_batches(dataset, 4, range(2), 5)
    assert dealt.reads_on(1, 2) and dealt.reads_on(4, 2) and not dealt.reads_on(2, 4)
    assert dealt.is_elastic and not shard(dataset, 4, 0, 5).is_elastic


def test_what_is_sharded_already_is_refused():
    rows = GeneratorDataset(list(range(8)), ["row"], sampler=DistributedSampler(2, 0)).batch(2)
    with pytest.raises(DataParallelError, match="elastic_determinism: train_dataset is sharded already"):
        shard_micro_batches(rows, 2, range(2))
