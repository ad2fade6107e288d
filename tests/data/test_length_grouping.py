"""Rows of similar length together: the sampler, the lengths it goes by, the padding that profits."""

from itertools import chain

import mindspore
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import dataset as ds

from mindnlp_dp_plugin import (
    DataParallelError,
    DistributedLengthGroupedSampler,
    DistributedSampler,
    DynamicPadding,
    shard,
)
from mindnlp_dp_plugin.data import measure_lengths
from tests.data.test_shard import BY_BATCH, PIPELINES, Table

LENGTHS = st.lists(st.integers(1, 500), min_size=1, max_size=200)
RANKS = st.integers(1, 6)
BATCHES = st.integers(1, 9)
SEEDS = st.integers(0, 2**31)
MANY = settings(max_examples=200)


def deal(lengths, num_replicas, batch_size, epoch=0, start=0, **options):
    """What each rank reads in an epoch, in batches."""
    ranks = []
    for rank in range(num_replicas):
        sampler = DistributedLengthGroupedSampler(lengths, num_replicas, rank, batch_size, **options)
        sampler.set_epoch(epoch)
        num_rows = len(sampler)
        sampler.start_at(start * batch_size)
        rows = list(sampler)
        assert len(rows) == max(num_rows - start * batch_size, 0)
        ranks.append([rows[begin : begin + batch_size] for begin in range(0, len(rows), batch_size)])
    return ranks


def steps_of(ranks):
    """The rows of each step, over all ranks."""
    assert len({len(batches) for batches in ranks}) == 1
    return [list(chain.from_iterable(batches)) for batches in zip(*ranks)]


@MANY
@given(LENGTHS, RANKS, BATCHES, SEEDS, st.integers(0, 5), st.booleans())
def test_each_row_is_read_once_in_equally_many_steps(lengths, num_replicas, batch_size, seed, epoch, drop_last):
    steps = steps_of(deal(lengths, num_replicas, batch_size, epoch, seed=seed, drop_last=drop_last))
    read = [row for step in steps for row in step]
    if drop_last:
        assert len(set(read)) == len(read) == len(lengths) - len(lengths) % num_replicas
    else:
        assert set(read) == set(range(len(lengths))) and len(read) < len(lengths) + num_replicas
        assert lengths[steps[0][0]] == max(lengths)


@MANY
@given(LENGTHS, RANKS, BATCHES, SEEDS)
def test_a_step_of_ranks_reads_the_rows_of_one_process_with_the_whole_batch(lengths, num_replicas, batch_size, seed):
    ranks = steps_of(deal(lengths, num_replicas, batch_size, seed=seed))
    [alone] = deal(lengths, 1, batch_size * num_replicas, seed=seed)
    assert [sorted(step) for step in ranks[:-1]] == [sorted(batch) for batch in alone[: len(ranks) - 1]]
    last = sorted(set(ranks[-1]) - set(chain.from_iterable(ranks[:-1])))
    assert last == sorted(chain.from_iterable(alone[len(ranks) - 1 :]))


@MANY
@given(st.lists(st.integers(1, 500), min_size=40, max_size=200), RANKS, BATCHES, SEEDS)
def test_seed_and_epoch_fix_the_order(lengths, num_replicas, batch_size, seed):
    first = deal(lengths, num_replicas, batch_size, 0, seed=seed)
    assert first == deal(lengths, num_replicas, batch_size, 0, seed=seed)
    if len(lengths) >= 8 * num_replicas * batch_size:  # several megabatches
        assert first != deal(lengths, num_replicas, batch_size, 1, seed=seed)
        assert first != deal(lengths, num_replicas, batch_size, 0, seed=seed + 1)


@MANY
@given(LENGTHS, RANKS, BATCHES, SEEDS, st.integers(0, 20))
def test_resumed_after_some_steps_the_rest_is_read(lengths, num_replicas, batch_size, seed, start):
    whole = deal(lengths, num_replicas, batch_size, 3, seed=seed)
    rest = deal(lengths, num_replicas, batch_size, 3, start=start, seed=seed)
    assert rest == [batches[start:] for batches in whole]


@MANY
@given(st.integers(1, 4), st.integers(2, 8), SEEDS)
def test_lengths_of_a_step_are_alike(num_replicas, batch_size, seed):
    lengths = np.random.default_rng(seed).integers(1, 500, 40 * num_replicas * batch_size)

    def spread(ranks):
        """How far apart the rows of a step are, over all ranks, on average."""
        return np.mean([np.ptp(lengths[step]) for step in steps_of(ranks)])

    grouped = deal(lengths, num_replicas, batch_size, seed=seed)
    shuffled = []
    for rank in range(num_replicas):
        rows = list(DistributedSampler(len(lengths), num_replicas, rank, seed=seed))
        shuffled.append([rows[begin : begin + batch_size] for begin in range(0, len(rows), batch_size)])
    assert spread(grouped) < spread(shuffled) / 2


def test_rows_read_twice_are_as_long_as_those_they_join():
    lengths = [1000] + [10] * 8
    steps = steps_of(deal(lengths, 4, batch_size=1))
    assert sum(row == 0 for step in steps for row in step) == 1, "the longest is not read again to fill up"


@pytest.mark.parametrize(
    "arguments, named",
    [(([], 2, 0, 4), "num_samples=0"), (([3], 0, 0, 4), "num_replicas=0"), (([3], 2, 0, 0), "batch_size=0")],
)
def test_bad_numbers_are_named(arguments, named):
    with pytest.raises(DataParallelError, match=named):
        DistributedLengthGroupedSampler(*arguments)


class Texts:
    """Row ``i`` is ``lengths[i]`` times the number ``i``."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __getitem__(self, row):
        return np.full(self.lengths[row], row, np.int32), np.int64(self.lengths[row])

    def __len__(self):
        return len(self.lengths)


PADDING = DynamicPadding({"input_ids": -1}, pad_to_multiple_of=4, max_length=10)


def measured(pipeline, num_replicas=1, **options):
    parts = [measure_lengths(pipeline, num_replicas, rank, **options).tolist() for rank in range(num_replicas)]
    return [part.pop(0) for _ in range(max(map(len, parts))) for part in parts if part]


@PIPELINES
@given(st.lists(st.integers(1, 10), min_size=1, max_size=30), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_a_pipeline_is_measured_dealt_out_and_padded(lengths, num_replicas, batch_size, drop_last):
    pipeline = ds.GeneratorDataset(Texts(lengths), ["input_ids", "length"]).project(["input_ids"])
    pipeline = pipeline.batch(batch_size, drop_last, per_batch_map=PADDING, input_columns=PADDING.columns)
    assert measured(pipeline, num_replicas) == lengths
    shards = [shard(pipeline, num_replicas, rank, 3, lengths) for rank in range(num_replicas)]
    expected = deal(lengths, num_replicas, batch_size, 2, seed=3, drop_last=drop_last)
    for share, batches in zip(shards, expected):
        share.set_epoch(2)
        read = [batch["input_ids"] for batch in share.create_dict_iterator(output_numpy=True)]
        if drop_last:
            batches = [batch for batch in batches if len(batch) == batch_size]
        assert [batch[:, 0].tolist() for batch in read] == batches and len(share) == len(batches)
        for batch, rows in zip(read, batches):
            assert batch.shape[1] == min(-(-max(lengths[row] for row in rows) // 4) * 4, 10)
            assert [(row != -1).sum() for row in batch] == [lengths[row] for row in rows]


def test_where_lengths_are_found():
    def texts():
        return ds.GeneratorDataset(Texts([3, 1, 2]), ["input_ids", "length"])

    def doubled():
        return texts().map(lambda row: np.concatenate([row, row]), ["input_ids"])

    assert measured(doubled().batch(1)) == [3, 1, 2]
    assert measured(doubled().project(["input_ids"]).shuffle(3).batch(1)) == [3, 1, 2], "the column was left out later"
    assert measured(doubled().batch(1), column="size") == [6, 2, 4]
    assert measured(texts().rename("length", "size").batch(1), column="size") == [3, 1, 2]
    assert measured(texts().rename("input_ids", "text")) == [3, 1, 2], "not batched yet"
    with pytest.raises(DataParallelError, match="neither a column 'size' nor 'input_ids' in .*: name .*_column_name"):
        measured(ds.GeneratorDataset(Table(3), ["text"]).batch(1), column="size")


@pytest.mark.parametrize("seed", [None, 5])
def test_half_of_a_split_is_measured_as_it_is_read(seed):
    found = ds.config.get_seed()
    if seed is not None:
        mindspore.set_seed(seed)
    try:
        texts = ds.GeneratorDataset(Texts(list(range(1, 21))), ["input_ids", "length"], shuffle=False)
        half = texts.split([12, 8])[0].project(["input_ids"]).batch(1)
        lengths = measured(half, 2, seed=3)
        shares = [shard(half, 2, rank, 3, lengths) for rank in range(2)]
        read = [[batch["input_ids"].shape[1] for batch in share.create_dict_iterator()] for share in shares]
    finally:
        ds.config.set_seed(found)
    assert sorted(chain(*read)) == sorted(lengths) and len(set(lengths)) == 12
    assert read == [[lengths[row] for [row] in batches] for batches in deal(lengths, 2, 1, seed=3)]


@pytest.mark.parametrize("kind", BY_BATCH)
def test_what_cannot_be_read_by_row_is_refused(kind):
    pipeline = BY_BATCH[kind]()
    with pytest.raises(DataParallelError, match="cannot be grouped by length: its rows.*group_by_length=False"):
        measure_lengths(pipeline, 2, 0)


def test_what_is_sharded_already_is_refused():
    sharded = ds.GeneratorDataset(Table(8), ["input_ids"], num_shards=2, shard_id=0).batch(2)
    for pipeline in (sharded, shard(sharded, 2, 0)):
        with pytest.raises(DataParallelError, match="it is sharded already"):
            shard(pipeline, 2, 0, lengths=[1] * 4)
    with pytest.raises(DataParallelError, match="lengths has 3 entries for 8 rows"):
        shard(ds.GeneratorDataset(Table(8), ["row"]).batch(2), 2, 0, lengths=[1, 2, 3])


def test_padding_of_several_columns():
    padding = DynamicPadding({"ids": 7, "pairs": -100}, pad_to_multiple_of=4)
    rows = [np.arange(3, dtype=np.int16), np.arange(5, dtype=np.int16)]
    pairs = [np.ones((1, 2), np.float32), np.ones((4, 2), np.float32)]
    ids, padded = padding(rows, pairs, None)
    assert padding.columns == ["ids", "pairs"]
    assert ids.dtype == np.int16 and ids.tolist() == [[0, 1, 2, 7, 7, 7, 7, 7], [0, 1, 2, 3, 4, 7, 7, 7]]
    assert padded.dtype == np.float32 and padded.shape == (2, 4, 2) and (padded[0, 1:] == -100).all()
    assert DynamicPadding({"ids": 7}, 4, max_length=4)(rows, None)[0].shape == (2, 5), "nothing is cut off"


@pytest.mark.parametrize(
    "arguments, named",
    [(({},), "values={}"), (({"a": 0}, 0), "pad_to_multiple_of=0"), (({"a": 0}, 1, -2), "max_length=-2")],
)
def test_padding_that_makes_no_sense_is_named(arguments, named):
    with pytest.raises(DataParallelError, match=named):
        DynamicPadding(*arguments)
