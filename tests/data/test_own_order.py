"""Orders that ranks draw apart are told from rows that are random by design, by real pipelines that each rank reads."""

import copy
import itertools

import numpy as np
import pytest
from datasets import Dataset
from mindspore import dataset as ds

from mindnlp_dp_plugin.data import shard, shard_micro_batches
from mindnlp_dp_plugin.data.own_order import have_parted, is_order_drawn_apart
from mindnlp_dp_plugin.data.sample import RowSample
from mindnlp_dp_plugin.step.same_data import MOVES, READ_ONCE, fault_of

NUM_ROWS, NUM_READINGS = 64, 3


def row(number):
    return np.full(4, number, np.int32), np.int32(number % 2)


def pipeline(source):
    return ds.GeneratorDataset(source, ["ids", "label"])


def permuted_rows():
    yield from map(row, np.random.default_rng().permutation(NUM_ROWS))


def with_a_shuffle_buffer():
    chance, buffer = np.random.default_rng(), []
    for number in range(NUM_ROWS):
        buffer.append(number)
        if len(buffer) == 8:
            yield row(buffer.pop(chance.integers(8)))
    yield from map(row, buffer)


def streamed_by_hugging_face():
    rows = Dataset.from_dict({"number": list(range(NUM_ROWS))}).to_iterable_dataset()
    yield from (row(each["number"]) for each in rows.shuffle(buffer_size=16))


class OrderOfFiles:
    """Whole files in an order of chance."""

    def __iter__(self):
        files = np.random.default_rng().permutation(16)
        return iter([row(4 * file + number) for file in files for number in range(4)])


class Reshuffled:
    """Draws from a generator that is seeded alike on all ranks, and goes on in the next pass."""

    def __init__(self):
        self.chance = np.random.default_rng(5)

    def __iter__(self):
        return iter([row(number) for number in self.chance.permutation(NUM_ROWS)])


def in_order():
    yield from map(row, range(NUM_ROWS))


def changed(share):
    def change(ids):
        chance = np.random.default_rng()
        return np.where(chance.random(ids.shape) < share, np.int32(chance.integers(1000, 10**6)), ids)

    return change


def passes_on(num_ranks, make):
    passes = []
    for _ in range(num_ranks):
        sample = RowSample(make().batch(8))
        sample.read(NUM_READINGS)
        assert sample.unit == "batch"
        passes.append(sample.passes)
    return passes


@pytest.mark.parametrize(
    "source", [permuted_rows, with_a_shuffle_buffer, streamed_by_hugging_face, OrderOfFiles()], ids=range(4)
)
def test_an_order_that_each_pass_draws_is_found(source):
    assert is_order_drawn_apart(passes_on(2, lambda: pipeline(source)))


@pytest.mark.parametrize("share", [1.0, 0.15])
def test_augmented_rows_in_a_new_order_are_found(share):
    assert is_order_drawn_apart(passes_on(2, lambda: pipeline(permuted_rows).map(changed(share), ["ids"])))


@pytest.mark.parametrize("share", [1.0, 0.15, 0.01])
def test_augmentation_keeps_the_order(share):
    passes = passes_on(3, lambda: pipeline(in_order).map(changed(share), ["ids"]))
    assert not is_order_drawn_apart(passes) and (share < 0.1 or passes[0] != passes[1])


@pytest.mark.parametrize(
    "make",
    {
        "a fixed order": lambda: pipeline(in_order),
        "MindSpore's shuffle": lambda: pipeline(in_order).shuffle(16),
        "a seeded order that goes on": lambda: pipeline(Reshuffled()),
        "NumPy's common stream": lambda: pipeline(lambda: map(row, np.random.permutation(NUM_ROWS))),
    }.items(),
    ids=lambda case: case[0],
)
def test_an_order_that_all_ranks_share_passes(make):
    _, make = make
    assert not is_order_drawn_apart(passes_on(2, make))


class Opened:
    """A file that is opened once, as a class."""

    def __init__(self):
        self.numbers = itertools.count()

    def __iter__(self):
        return self

    def __next__(self):
        number = next(self.numbers)
        if number >= 4096:
            raise StopIteration
        return row(number)


class OpenedAgain(Opened):
    """A class as MindSpore's manual shows it: begins again."""

    def __iter__(self):
        self.numbers = itertools.count()
        return self


def masked_tokens(number):
    """A row to learn words from: what is hidden is drawn in each pass, and so is each label."""
    ids, is_hidden = np.random.default_rng(number).integers(4, 1000, 24), np.random.default_rng().random(24) < 0.15
    return np.where(is_hidden, 3, ids).astype(np.int32), np.where(is_hidden, ids, -100).astype(np.int32)


def masked_in_order():
    yield from map(masked_tokens, range(NUM_ROWS))


def masked_and_permuted():
    yield from map(masked_tokens, np.random.default_rng().permutation(NUM_ROWS))


def test_a_row_of_which_only_some_tokens_are_masked_is_known_again():
    assert not is_order_drawn_apart(passes_on(2, lambda: pipeline(masked_in_order)))
    assert is_order_drawn_apart(passes_on(2, lambda: pipeline(masked_and_permuted)))


def rest_of(iterator):
    return lambda: iterator


class Counted(Opened):
    """Says how many rows there are to come, which a stream can."""

    def __len__(self):
        return 4096


def behind_a_function():
    stream = map(row, range(NUM_ROWS))

    def rows():
        yield from stream

    return rows


@pytest.mark.parametrize(
    "source, is_read_once",
    [
        (lambda: iter([row(number) for number in range(NUM_ROWS)]), True),
        (lambda: iter([row(number) for number in range(4096)]), True),
        (lambda: rest_of(map(row, range(4096))), True),
        (lambda: rest_of(map(row, range(0))), True),
        (Opened, True),
        (Counted, True),
        (behind_a_function, True),
        (OpenedAgain, False),
        (lambda: in_order, False),
        (lambda: in_order(), False),
        (Reshuffled, False),
    ],
)
@pytest.mark.parametrize("prepared", [lambda rows: rows, lambda rows: shard(rows, 2, 0)], ids=["", "shard"])
def test_a_source_that_can_be_read_once_is_found(source, is_read_once, prepared):
    assert (fault_in(prepared(pipeline(source()).batch(8))) == READ_ONCE) == is_read_once


def fault_in(rows):
    sample = RowSample(rows)
    sample.read(NUM_READINGS)
    return fault_of(sample)


class ByNumber:
    """Rows by number.

    Args:
        size: How many.
        change: What is done to the tokens of a row.
    """

    def __init__(self, size, change=lambda ids: ids):
        self.numbers, self.change = np.arange(size), change

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, number):
        ids, label = row(self.numbers[number])
        return self.change(ids), label


class ShufflesItself(ByNumber):
    """Draws an order when its first row is read."""

    def __getitem__(self, number):
        if number == 0:
            np.random.default_rng().shuffle(self.numbers)
        return super().__getitem__(number)


def noise(ids):
    return np.random.default_rng().integers(0, 10**6, 16).astype(np.int32)


@pytest.mark.parametrize("size", [8, NUM_ROWS, 50_000])
def test_a_source_that_shuffles_itself_is_found(size):
    assert fault_in(pipeline(ShufflesItself(size)).batch(8)) == MOVES


@pytest.mark.parametrize("change", [changed(1.0), changed(0.15), noise, lambda ids: ids], ids=range(4))
@pytest.mark.parametrize("size", [8, 50_000])
def test_rows_by_number_may_be_random(change, size):
    assert fault_in(pipeline(ByNumber(size, change)).shuffle(16).batch(8)) is None


@pytest.mark.parametrize("size", [16, 1024])
def test_a_split_draws_its_rows_by_mindspore_s_seed(size):
    _, split = ds.GeneratorDataset(ByNumber(size), ["ids", "label"], shuffle=False).split([0.3, 0.7])
    assert fault_in(copy.deepcopy(split).batch(8)) is None


class Later:
    """Rows in order, until each rank draws one of its own: by pass, and behind the first rows."""

    def __init__(self, own_from, fixed=0):
        self.passes, self.own_from, self.fixed = 0, own_from, fixed

    def __iter__(self):
        self.passes += 1
        numbers = np.arange(NUM_ROWS)
        if self.passes >= self.own_from:
            np.random.default_rng().shuffle(numbers[self.fixed :])
        return iter(map(row, numbers))


def by_ranks(pipeline, rank):
    return shard(pipeline, 2, rank)


def by_micro_batches(pipeline, rank):
    return shard_micro_batches(pipeline, 4, [2 * rank, 2 * rank + 1])


def what_ranks_have_read(make, deal, epochs=3):
    """The witnesses of two ranks, each with a pipeline of its own, watched after a sample that was equal."""
    witnesses = []
    for rank in range(2):
        pipeline = make().batch(8)
        share, sample = deal(pipeline, rank), RowSample(pipeline)
        sample.changing = sample.read(NUM_READINGS)[1]
        share.watch(sample.changing, sample.read_again)
        for epoch in range(epochs):
            share.set_epoch(epoch)
            list(share.create_dict_iterator(output_numpy=True))
        witnesses.append(share.witness)
    return witnesses


def have_ranks_parted(make, deal=by_ranks):
    one, other = what_ranks_have_read(make, deal)
    assert one.count == other.count > 0
    return one.digests != other.digests and have_parted([one.passes, other.passes], one.changing)


# Where the tokens are random by design, labels alone tell, half of which are right by chance.
@pytest.mark.parametrize("fixed, share", [(0, 0), (32, 0), (48, 0), (0, 0.15), (32, 0.15)])
@pytest.mark.parametrize("deal", [by_ranks, by_micro_batches])
def test_an_order_that_changes_after_the_sample_was_read_is_found(fixed, share, deal):
    assert have_ranks_parted(lambda: pipeline(Later(NUM_READINGS + 2, fixed)).map(changed(share), ["ids"]), deal)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pipeline(in_order),
        lambda: pipeline(in_order).shuffle(16),
        lambda: pipeline(Reshuffled()),
        lambda: pipeline(in_order).map(changed(1.0), ["ids"]),
        lambda: pipeline(in_order).map(changed(0.15), ["ids"]),
        lambda: ds.GeneratorDataset(lambda: ((row(n)[0],) for n in range(NUM_ROWS)), ["ids"]).map(
            changed(0.01), ["ids"]
        ),
        lambda: pipeline(masked_in_order),
    ],
    ids=range(7),
)
def test_what_is_random_by_design_may_go_on(make):
    assert not have_ranks_parted(make)


class RenumberedLater(ByNumber):
    """Draws other numbers for its rows after some reads, of a share of them."""

    def __init__(self, reads, share):
        super().__init__(NUM_ROWS)
        self.left, self.share = reads, share

    def __getitem__(self, number):
        self.left -= 1
        if self.left == 0:
            np.random.default_rng().shuffle(self.numbers[-int(NUM_ROWS * self.share) :])
        return super().__getitem__(number)


@pytest.mark.parametrize("share", [1, 0.5])
@pytest.mark.parametrize("deal", [by_ranks, by_micro_batches])
def test_a_source_that_shuffles_itself_later_is_found(share, deal):
    reads = NUM_READINGS * 32 + NUM_ROWS // 2 - 1
    assert have_ranks_parted(lambda: pipeline(RenumberedLater(reads, share)), deal)


@pytest.mark.parametrize("change", [changed(1.0), changed(0.15), noise, lambda ids: ids], ids=range(4))
def test_rows_by_number_may_go_on_being_random(change):
    assert not have_ranks_parted(lambda: pipeline(ByNumber(NUM_ROWS, change)).shuffle(16))


def test_rows_that_all_ranks_change_alike_at_an_epoch_are_no_reason():
    class Curriculum(ByNumber):
        def __getitem__(self, number):
            self.reads = getattr(self, "reads", 0) + 1
            ids, label = super().__getitem__(number)
            return (ids + 1 if self.reads > NUM_READINGS * 32 + 32 else ids), label

    assert not have_ranks_parted(lambda: pipeline(Curriculum(NUM_ROWS)))


class SaysWrongly(OpenedAgain):
    """Begins anew each time, has 4096 rows, and says another number."""

    def __init__(self, says):
        super().__init__()
        self.says = says

    def __len__(self):
        return self.says


@pytest.mark.parametrize("says", [4088, 4104])
def test_a_length_that_is_not_what_is_read_ends_the_epoch_with_both_numbers(says):
    share = shard(pipeline(SaysWrongly(says)).batch(8), 2, 0)
    with pytest.raises(RuntimeError, match=f"4096 is different from generator.len {says}"):
        list(share.create_dict_iterator())
