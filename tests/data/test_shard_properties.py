"""Any pipeline, dealt out to any number of ranks: together they read what one process reads, in equally many steps."""

from collections import Counter

import mindspore
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mindspore import dataset as ds

from mindnlp_dp_plugin import shard
from mindnlp_dp_plugin.data.sharded import ShardedByRow
from tests.data.test_shard import PIPELINES, Table, all_ranks, flat, numbers

MANY = settings(PIPELINES, max_examples=150)


@pytest.fixture(autouse=True)
def seed_of_the_user():
    before = ds.config.get_seed()
    yield
    ds.config.set_seed(before)


OPERATORS = {
    "map": lambda rows, number: rows.map(lambda row: row, ["row"]),
    "shuffle": lambda rows, number: rows.shuffle(number + 2),
    "filter": lambda rows, number: rows.filter(lambda row: bool(row % (number + 2)), ["row"]),
    "repeat": lambda rows, number: rows.repeat(1 + number % 3),
    "take": lambda rows, number: rows.take(number + 1),
    "skip": lambda rows, number: rows.skip(number),
    "concat": lambda rows, number: rows + ds.GeneratorDataset(Table(number + 1), ["row"]),
}
SOURCES = {
    "table": lambda num_rows: ds.GeneratorDataset(Table(num_rows), ["row"], shuffle=False),
    "shuffled table": lambda num_rows: ds.GeneratorDataset(Table(num_rows), ["row"]),
    "generator": lambda num_rows: ds.GeneratorDataset(lambda: numbers(num_rows), ["row"]),
    "half": lambda num_rows: SOURCES["table"](2 * num_rows).split([num_rows, num_rows])[0],
}


MINDSPORE_READS_NOTHING = [  # its own errors, for a shuffle or a concat of what a filter or skip has left empty
    "Unable to fetch a single row for shuffle buffer",
    "There are no samples in the dataset number",
]


@MANY
@given(
    st.sampled_from(list(SOURCES)),
    st.integers(1, 25),
    st.lists(st.tuples(st.sampled_from(list(OPERATORS)), st.integers(0, 6)), max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 2),
)
def test_ranks_together_read_what_one_process_reads(source, num_rows, steps, batch, drop_last, num_replicas, epoch):
    ds.config.set_seed(5)
    pipeline = SOURCES[source](num_rows)
    try:
        for operator, number in steps:
            pipeline = OPERATORS[operator](pipeline, number)
        pipeline = pipeline.batch(batch, drop_last)
        [alone] = all_ranks(pipeline, 1, epoch)
    except (RuntimeError, ValueError) as error:
        assume(not any(refusal in str(error) for refusal in MINDSPORE_READS_NOTHING))
        raise
    ranks = all_ranks(pipeline, num_replicas, epoch)

    assert len({len(batches) for batches in ranks}) == 1, "ranks make unequally many steps"
    read, expected = Counter(flat(ranks)), Counter(flat([alone]))
    granted = num_replicas if isinstance(shard(pipeline, num_replicas, 0), ShardedByRow) else num_replicas * batch
    if drop_last:
        assert not read - expected and (expected - read).total() < num_replicas * batch
    else:
        assert not expected - read and (read - expected).total() < granted
    assert ranks == all_ranks(pipeline, num_replicas, epoch), "another order for the same epoch"


@PIPELINES
@given(
    st.integers(2, 40), st.floats(0.1, 0.9), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(1, 2**31)
)
def test_halves_of_a_split_stay_apart_and_whole(num_rows, share, batch, num_replicas, shuffled, seed):
    mindspore.set_seed(seed)
    held_in = min(max(int(num_rows * share), 1), num_rows - 1)
    halves = ds.GeneratorDataset(Table(num_rows), ["row"], shuffle=False).split([held_in, num_rows - held_in])
    if shuffled:
        halves = [half.shuffle(num_rows + 1) for half in halves]
    read = [[set(flat(all_ranks(half.batch(batch), num_replicas, epoch))) for epoch in (0, 1)] for half in halves]
    assert read[0][0] == read[0][1] and len(read[0][0]) == held_in
    assert read[1][0] == read[1][1] == set(range(num_rows)) - read[0][0]
