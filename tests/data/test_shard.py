import copy
import random

import datasets
import mindspore
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mindspore import dataset as ds
from mindspore.dataset import transforms
from mindspore.mindrecord import FileWriter

from mindnlp_dp_plugin import DataParallelError, DistributedSampler, shard
from mindnlp_dp_plugin.collectives.pretended import PretendedRank
from mindnlp_dp_plugin.step.dispatching import dispatch_training_rows

PIPELINES = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def batches(sharded, epoch=0, column="row"):
    sharded.set_epoch(epoch)
    return [batch[column].tolist() for batch in sharded.create_dict_iterator(output_numpy=True)]


def all_ranks(pipeline, num_replicas, epoch=0, seed=3):
    """The batches of each rank, and proof that each rank's length is what it said."""
    shards = [shard(pipeline, num_replicas, rank, seed) for rank in range(num_replicas)]
    read = [batches(each, epoch) for each in shards]
    assert [len(each) for each in shards] == [len(rows) for rows in read]
    return read


class CountingTable:
    """Notes which rows are read."""

    def __init__(self, num_rows):
        self.num_rows, self.read = num_rows, []

    def __deepcopy__(self, memo):
        return self

    def __getitem__(self, index):
        self.read.append(int(index))
        return (np.int32(index),)

    def __len__(self):
        return self.num_rows


def flat(nested):
    return [row for rank in nested for batch in rank for row in np.ravel(batch).tolist()]


class Table:
    """What users hand to GeneratorDataset: something with a length and numbered rows."""

    def __init__(self, num_rows):
        self.num_rows = num_rows

    def __getitem__(self, index):
        return (np.int32(index),)

    def __len__(self):
        return self.num_rows


def numbers(count):
    for number in range(count):
        yield (np.int32(number),)


@PIPELINES
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_step_k_reads_what_one_process_with_n_batches_reads(num_rows, num_replicas, batch, drop_last):
    def pipeline(batch_size):
        return ds.GeneratorDataset(Table(num_rows), ["row"], shuffle=False).batch(batch_size, drop_last)

    ranks = all_ranks(pipeline(batch), num_replicas)
    whole = [rows["row"].tolist() for rows in pipeline(batch * num_replicas).create_dict_iterator(output_numpy=True)]
    shards = [shard(pipeline(batch), num_replicas, rank) for rank in range(num_replicas)]
    counted = [
        [rows for rows in each.create_dict_iterator(output_numpy=True) if not each.is_repeated] for each in shards
    ]
    steps = [[], *([] for _ in ranks[0])]
    for rank in counted:
        for step, rows in enumerate(rank):
            steps[step] += rows["row"].tolist()
    assert [sorted(step) for step in steps if step] == whole, "each row counts once"
    assert len({len(rank) for rank in ranks}) == 1, "all ranks read as many batches"
    assert all(len(rank[-1]) == 1 and len(kept) == len(rank) - 1
               for rank, kept in zip(ranks, counted) if len(kept) < len(rank))  # fmt: skip


@PIPELINES
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.integers(1, 50))
def test_shuffled_rows_are_read_once(num_rows, num_replicas, batch, drop_last, buffer):
    pipeline = ds.GeneratorDataset(Table(num_rows), ["row"], shuffle=False).shuffle(max(buffer, 2))
    ranks = all_ranks(pipeline.batch(batch, drop_last), num_replicas)
    read = flat(ranks)
    if drop_last:
        assert len(set(read)) == len(read) and len(read) % (batch * num_replicas) == 0
    else:
        repeats = -num_rows % num_replicas if num_rows // num_replicas % batch == 0 else 0
        assert set(read) == set(range(num_rows)) and len(read) == num_rows + repeats


def seed_000_pipeline():
    """Load, shuffle, tokenise in a map, cast the label, pad and batch: the course's own script."""
    texts = [(" ".join("word" for _ in range(1 + row % 5)) + f" {row}", row % 2) for row in range(37)]
    pipeline = ds.GeneratorDataset(texts, ["text", "label"], shuffle=False).shuffle(4)

    def tokenize(text):
        words = str(text).split()
        return np.array([len(word) for word in words] + [int(words[-1])]), np.ones(len(words) + 1, np.int64)

    pipeline = pipeline.map([tokenize], "text", ["row", "attention_mask"])
    pipeline = pipeline.map(transforms.TypeCast(mindspore.int32), "label", "labels")
    return pipeline.padded_batch(4, pad_info={"row": (None, 1), "attention_mask": (None, 0)})


def test_the_pipeline_of_the_course():
    def read(epoch):
        shards = [shard(seed_000_pipeline(), 2, rank, seed=3) for rank in range(2)]
        for each in shards:
            each.set_epoch(epoch)
        batches = [list(each.create_dict_iterator(output_numpy=True)) for each in shards]
        assert len(batches[0]) == len(batches[1]) == len(shards[0]) == 5
        # The text's number is the last token before the padding.
        return [[row[sum(mask) - 1] for batch in rank for row, mask in zip(batch["row"], batch["attention_mask"])]
                for rank in batches]  # fmt: skip

    first, second = read(0), read(1)
    assert set(first[0]) | set(first[1]) == set(range(37)) and [len(first[0]), len(first[1])] == [19, 18]
    assert first != second and first == read(0)


HUGGING_FACE = datasets.Dataset.from_dict({"row": list(range(11))}).with_format("numpy")


class HuggingFaceRows:
    def __getitem__(self, index):
        return (HUGGING_FACE[int(index)]["row"],)

    def __len__(self):
        return len(HUGGING_FACE)


BY_ROW = {
    "list": lambda: ds.GeneratorDataset(list(range(11)), ["row"]),
    "array": lambda: ds.GeneratorDataset(np.arange(11).reshape(11, 1), ["row"]),
    "random access": lambda: ds.GeneratorDataset(Table(11), ["row"]),
    "worker processes": lambda: ds.GeneratorDataset(Table(11), ["row"], num_parallel_workers=2),
    "hugging face": lambda: ds.GeneratorDataset(HuggingFaceRows(), ["row"]),
    "numpy slices": lambda: ds.NumpySlicesDataset(list(range(11)), ["row"]),
    "two shuffles": lambda: ds.GeneratorDataset(Table(11), ["row"]).shuffle(3),
    "mapped and renamed": lambda: ds.GeneratorDataset(Table(11), ["x"])
    .map(lambda x: (x, x), ["x"], ["x", "y"])
    .project(["x"])
    .rename("x", "row"),
}


@pytest.mark.parametrize("kind", BY_ROW)
@pytest.mark.parametrize("num_replicas", [1, 2, 3])
def test_what_is_shuffled_gets_a_new_order_each_epoch(kind, num_replicas):
    first, again, second = (all_ranks(BY_ROW[kind]().batch(2), num_replicas, epoch) for epoch in (0, 0, 1))
    assert set(flat(first)) == set(range(11)) and len(flat(first)) == 11
    assert first == again
    assert first != second


def test_what_is_not_shuffled_is_read_the_same_each_epoch():
    pipeline = ds.GeneratorDataset(Table(11), ["row"], shuffle=False).batch(2)
    assert all_ranks(pipeline, 2, epoch=0) == all_ranks(pipeline, 2, epoch=1)


def test_a_split_is_dealt_out_within_itself():
    train, test = ds.GeneratorDataset(Table(20), ["row"], shuffle=False).split([15, 5], randomize=False)
    assert sorted(set(flat(all_ranks(train.batch(2), 2)))) == list(range(15))
    assert sorted(set(flat(all_ranks(test.batch(2), 3)))) == list(range(15, 20))


def test_the_users_own_subset_is_what_is_dealt_out():
    pipeline = ds.GeneratorDataset(Table(20), ["row"], sampler=ds.SubsetSampler([9, 4, 17, 2])).batch(1)
    assert all_ranks(pipeline, 2) == [[[9], [17]], [[4], [2]]]


def test_the_first_rows_of_a_source_are_what_is_dealt_out():
    pipeline = ds.GeneratorDataset(Table(20), ["row"], num_samples=5, shuffle=False).batch(2)
    assert all_ranks(pipeline, 2) == [[[0, 2], [4]], [[1, 3], [0]]]


@pytest.fixture
def record_of_11(tmp_path):
    path = str(tmp_path / "rows.mindrecord")
    writer = FileWriter(path, 1)
    writer.add_schema({"row": {"type": "int32"}}, "rows")
    writer.write_raw_data([{"row": row} for row in range(11)])
    writer.commit()
    return path


def test_mindrecord_is_dealt_out_by_row(record_of_11):
    unshuffled = ds.MindDataset(record_of_11, shuffle=False).batch(3)
    assert all_ranks(unshuffled, 2) == [[[0, 2, 4], [6, 8, 10]], [[1, 3, 5], [7, 9]]]
    shuffled = ds.MindDataset(record_of_11).batch(3)
    first, again, second = (all_ranks(shuffled, 2, epoch) for epoch in (0, 0, 1))
    assert first == again != second and set(flat(first)) == set(flat(second)) == set(range(11))
    subset = ds.MindDataset(record_of_11, sampler=ds.SubsetSampler([7, 3, 5, 1])).batch(1)
    assert all_ranks(subset, 2) == [[[7], [5]], [[3], [1]]]


def test_mindrecord_that_is_shuffled_within_files_stays_so(record_of_11):
    pipeline = ds.MindDataset(record_of_11, shuffle=ds.Shuffle.FILES).batch(1)
    assert all_ranks(pipeline, 2) == [[[row] for row in (0, 2, 4, 6, 8, 10)], [[row] for row in (1, 3, 5, 7, 9, 10)]]


def test_files_of_mindspores_own_format_are_dealt_out_by_row():
    pipeline = ds.FakeImageDataset(num_images=7, image_size=(2, 2, 1), shuffle=False).batch(1)
    images = [batch["image"].tolist() for batch in pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)]
    shards = [shard(pipeline, 2, rank) for rank in range(2)]
    assert [batches(each, column="image") for each in shards] == [images[0::2], [*images[1::2], images[0]]]
    assert shards[0].num_rows == 7  # known only by row


class OwnOrder(ds.Sampler):
    """A sampler class as users write them."""

    def __iter__(self):
        yield from np.random.permutation(self.dataset_size).tolist()


BATCHED_ALREADY = ("shuffled batches", "callable batch size")
BY_BATCH = {
    "generator function": lambda: ds.GeneratorDataset(lambda: numbers(11), ["row"]).shuffle(5),
    "filter": lambda: ds.GeneratorDataset(Table(22), ["row"]).filter(lambda row: row % 2 == 0, ["row"]),
    "weighted": lambda: ds.GeneratorDataset(Table(11), ["row"], sampler=ds.WeightedRandomSampler([1.0] * 11, 11)),
    "random with replacement": lambda: ds.GeneratorDataset(Table(11), ["row"], sampler=ds.RandomSampler(True, 11)),
    "repeat": lambda: ds.GeneratorDataset(Table(4), ["row"]).repeat(3),
    "concat": lambda: (ds.GeneratorDataset(Table(6), ["row"]) + ds.GeneratorDataset(Table(5), ["row"])).shuffle(11),
    "callable batch size": lambda: ds.GeneratorDataset(Table(11), ["row"]).batch(lambda info: 1 + info.get_batch_num()),
    "iterable sampler": lambda: ds.GeneratorDataset(Table(11), ["row"], sampler=OwnOrder()),
    "shuffled batches": lambda: ds.GeneratorDataset(Table(22), ["row"], shuffle=False).batch(2).shuffle(8),
}


@pytest.mark.parametrize("kind", BY_BATCH)
def test_what_cannot_be_dealt_by_row_is_dealt_by_batch(kind):
    """Ranks take turns at the batches of one run of the pipeline, and the last turn is filled up."""
    pipeline = BY_BATCH[kind]() if kind in BATCHED_ALREADY else BY_BATCH[kind]().batch(2)
    num_batches = pipeline.get_dataset_size()
    [whole] = all_ranks(pipeline, 1)
    assert len(whole) == num_batches
    for num_replicas in (2, 3):
        ranks = all_ranks(pipeline, num_replicas)
        dealt = [ranks[index % num_replicas][index // num_replicas] for index in range(num_batches)]
        assert dealt == whole
        steps = -(-num_batches // num_replicas)
        left = num_batches - (steps - 1) * num_replicas
        for rank in range(left, num_replicas):
            assert ranks[rank][-1] == ranks[rank % left][-1]
    assert all_ranks(pipeline, 2, epoch=1) != all_ranks(pipeline, 2, epoch=0)


def test_passes_of_batches_that_ranks_cannot_divide_are_refused():
    def rows():
        return ds.GeneratorDataset(Table(11), ["row"], shuffle=False)

    for pipeline in (rows().batch(4).repeat(2), rows().batch(4).map(lambda row: row, ["row"]).repeat()):
        with pytest.raises(DataParallelError, match="repeats passes of 3 batches .* which 2 ranks cannot divide"):
            shard(pipeline, 2, 0)
        with pytest.raises(DataParallelError, match="repeats passes of 3 batches"):
            dispatch_training_rows(pipeline, PretendedRank(2), {}, 0)
        shard(pipeline, 3, 0)
    assert len(all_ranks(rows().batch(4).repeat(1), 2)[0]) == 2, "one pass"
    assert len(all_ranks(rows().repeat(2).batch(4), 2)[0]) == 3, "one process with twice the batch makes as many"


def test_by_batch_leaves_out_what_the_pipeline_would():
    pipeline = ds.GeneratorDataset(lambda: numbers(11), ["row"]).batch(2, drop_remainder=True)
    assert all_ranks(pipeline, 2) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    mapped_after = pipeline.map(lambda row: row, ["row"])
    assert all_ranks(mapped_after, 2) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_by_batch_reads_text_files_in_an_order_of_their_own_each_epoch(tmp_path):
    (tmp_path / "rows.txt").write_text("\n".join(f"row {row:02}" for row in range(11)))
    pipeline = ds.TextFileDataset(str(tmp_path / "rows.txt")).batch(1)

    def read(epoch):
        shards = [shard(pipeline, 2, rank) for rank in range(2)]
        return [line for each in shards for [line] in batches(each, epoch, column="text")]

    assert len(read(0)) == 12 and len(set(read(0))) == 11
    assert read(0) == read(0) != read(1)


def test_length_buckets_are_dealt_out_by_batch():
    rows = [(np.arange(1 + row % 3),) for row in range(11)]
    pipeline = ds.GeneratorDataset(rows, ["row"], shuffle=False).bucket_batch_by_length(["row"], [2, 3], [2, 2, 2])
    whole = [batch["row"].tolist() for batch in pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)]
    ranks = all_ranks(pipeline, 2)
    assert ranks[0] == whole[0::2] and ranks[1] == whole[1::2]


@pytest.mark.parametrize("shuffle", [True, False])
def test_what_the_user_sharded_is_left_alone(shuffle):
    ds.config.set_seed(5)
    own = ds.GeneratorDataset(Table(12), ["row"], shuffle=shuffle, num_shards=2, shard_id=1).batch(2)
    expected = [batch["row"].tolist() for batch in own.create_dict_iterator(output_numpy=True)]
    sharded = shard(own, 2, 1)
    assert batches(sharded) == expected
    assert sharded.num_examples == 12


def test_our_own_sampler_on_the_users_source_is_left_alone_but_told_the_epoch():
    def of_rank(rank, epoch):
        source = ds.GeneratorDataset(Table(12), ["row"], sampler=DistributedSampler(12, 2, rank, seed=8))
        return batches(shard(source.batch(2), 2, rank), epoch)

    for epoch in (0, 1):
        assert sorted(flat([of_rank(0, epoch), of_rank(1, epoch)])) == list(range(12))
    assert of_rank(0, 0) != of_rank(0, 1)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_sampler_class_of_the_users_that_shards_says_so(sharded):
    class Mine(ds.Sampler):
        def __iter__(self):
            yield from (0, 2, 4, 6)

        def is_sharded(self):
            return sharded

    pipeline = ds.GeneratorDataset(Table(8), ["row"], sampler=Mine()).batch(1)
    expected = [[0], [2], [4], [6]] if sharded else [[0], [4]]
    assert batches(shard(pipeline, 2, 0)) == expected


def test_an_iterable_source_is_dealt_out_though_its_sampler_says_it_is_sharded():
    """Such a source reads all its rows whatever its sampler says; left alone, every rank would read them all."""
    source = ds.GeneratorDataset(lambda: numbers(8), ["row"])
    source.use_sampler(ds.DistributedSampler(2, 0))
    pipeline = source.batch(2)
    assert pipeline.is_sharded() and len(list(pipeline.create_dict_iterator(num_epochs=1))) == 4
    assert all_ranks(pipeline, 2) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_what_was_dealt_out_is_not_dealt_out_again():
    once = shard(ds.GeneratorDataset(Table(8), ["row"]).batch(2), 2, 0)
    assert shard(once, 2, 0) is once


def test_a_length_that_was_asked_for_before_is_not_taken_for_a_ranks():
    """MindSpore remembers the sizes of a pipeline's operators."""
    pipeline = ds.GeneratorDataset(Table(12), ["row"]).map(lambda row: row, ["row"]).batch(2)
    assert pipeline.get_dataset_size() == 6
    assert len(shard(pipeline, 3, 0)) == 2 and pipeline.get_dataset_size() == 6


def test_a_copy_follows_its_own_epochs():
    """The Trainer copies its data sets."""
    original = shard(ds.GeneratorDataset(Table(12), ["row"]).batch(2), 2, 0)
    replica = copy.deepcopy(original)
    assert batches(replica, 1) == batches(original, 1) != batches(replica, 2)


@pytest.mark.parametrize("kind", ["by row", "by batch"])
def test_an_iterator_keeps_the_epoch_it_was_made_in(kind):
    source = Table(11) if kind == "by row" else lambda: numbers(11)
    sharded = shard(ds.GeneratorDataset(source, ["row"]).shuffle(11).batch(2), 2, 0)
    first = batches(sharded, 0)
    sharded.set_epoch(0)
    iterator = sharded.create_dict_iterator(output_numpy=True)
    sharded.set_epoch(1)
    assert [batch["row"].tolist() for batch in iterator] == first != batches(sharded, 1)


@pytest.mark.parametrize("source", [Table(6), lambda: numbers(6)])
def test_tuples_hold_what_dicts_hold(source):
    pipeline = ds.GeneratorDataset(source, ["row"], shuffle=False).map(
        lambda row: (row, -row), ["row"], ["row", "minus"]
    )
    sharded = shard(pipeline.project(["minus", "row"]).batch(1), 2, 0)
    read = [[value.item() for value in batch] for batch in sharded.create_tuple_iterator(output_numpy=True)]
    assert read == [[0, 0], [-2, 2], [-4, 4]]
    chosen = [[value.item() for value in batch] for batch in sharded.create_tuple_iterator(["row"], output_numpy=True)]
    assert chosen == [[0], [2], [4]]


def test_the_users_pipeline_and_random_streams_are_not_touched():
    pipeline = ds.GeneratorDataset(lambda: numbers(10), ["row"]).shuffle(5).batch(2)
    by_row = ds.GeneratorDataset(Table(10), ["row"], shuffle=False).shuffle(4).batch(2)
    ds.config.set_seed(77)
    np.random.random(), random.random()  # streams that are under way, which setting the seed again would restart

    def streams():
        return [str(np.random.get_state()), random.getstate(), ds.config.get_seed()]

    before = streams()
    all_ranks(pipeline, 2)
    all_ranks(by_row, 2)
    assert streams() == before
    assert pipeline.get_dataset_size() == by_row.get_dataset_size() == 5


def test_num_examples_counts_the_rows_of_all_ranks():
    def examples(num_rows, batch, drop_last, num_replicas):
        pipeline = ds.GeneratorDataset(Table(num_rows), ["row"]).batch(batch, drop_last)
        return shard(pipeline, num_replicas, 0).num_examples

    assert examples(100, 8, False, 2) == 100
    assert examples(101, 8, False, 2) == 101
    assert examples(101, 8, True, 2) == 96
    assert examples(15, 8, True, 2) == 0


@pytest.mark.parametrize("source", [Table(10), lambda: numbers(10)])
def test_a_rank_that_is_none_is_named(source):
    with pytest.raises(DataParallelError, match="rank=2"):
        shard(ds.GeneratorDataset(source, ["row"]).batch(2), 2, 2)


def test_what_is_no_pipeline_is_named():
    with pytest.raises(DataParallelError, match="dataset is a list"):
        shard([1, 2, 3], 2, 0)


@PIPELINES
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 6), st.booleans(), st.data())
def test_an_epoch_begun_in_the_middle_goes_on_as_the_whole_one(num_rows, num_replicas, batch, shuffle, data):
    table = CountingTable(num_rows)
    sharded = shard(ds.GeneratorDataset(table, ["row"], shuffle=shuffle).batch(batch), num_replicas, 0, seed=3)
    whole = [batches(sharded, epoch) for epoch in range(3)]
    num_done = data.draw(st.integers(0, len(whole[1]) - 1))
    sharded.start_at(1, num_done)
    table.read.clear()
    assert batches(sharded, 1) == whole[1][num_done:]
    assert sorted(table.read) == sorted(row for rows in whole[1][num_done:] for row in rows), "reads no row it skips"
    assert len(sharded) == len(whole[1])
    assert [batches(sharded, epoch) for epoch in (0, 2)] == [whole[0], whole[2]]


def test_an_epoch_of_which_only_its_end_is_left_has_no_batches_and_its_length():
    num_rows = 12
    for source in (Table(num_rows), lambda: numbers(num_rows)):
        sharded = shard(ds.GeneratorDataset(source, ["row"]).batch(2), 2, 0, seed=3)
        whole = [batches(sharded, epoch) for epoch in range(3)]
        sharded.start_at(1, 3, is_at_end=True)
        assert [batches(sharded, epoch) for epoch in range(3)] == [whole[0], [], whole[2]]
        assert len(sharded) == len(whole[1])


@pytest.mark.parametrize("kind", BY_BATCH)
def test_an_epoch_dealt_by_batch_begins_in_the_middle_too(kind):
    batched = BY_BATCH[kind]() if kind in BATCHED_ALREADY else BY_BATCH[kind]().batch(2)
    sharded = shard(batched, 2, 1, seed=3)
    whole = batches(sharded, 1)
    sharded.start_at(1, 1)
    assert batches(sharded, 1) == whole[1:]
