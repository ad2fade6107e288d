"""Ranks share an order if one column that tells rows apart stands in its places, and are refused otherwise."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindspore import dataset as ds

from mindnlp_dp_plugin.data import shard, shard_micro_batches
from mindnlp_dp_plugin.data.own_order import have_parted, keeps_its_order
from mindnlp_dp_plugin.data.sample import RowSample
from mindnlp_dp_plugin.step.same_data import READINGS

NUM_ROWS = 64
BEFORE = 8  # passes that are begun before training, three of which are not read
COLUMNS = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1)


@given(readings=st.lists(COLUMNS, min_size=2, max_size=3))
def test_of_the_columns_that_tell_rows_apart_one_is_to_be_alike(readings):
    telling = {column for each in readings for column in each if len(set(each[column])) > 1}
    alike = [column for column in telling if len({str(each.get(column)) for each in readings}) == 1]
    assert keeps_its_order(readings) == (bool(alike) or not telling)
    assert not keeps_its_order([*readings, {}])


@given(digests=st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 1)), min_size=2, max_size=4))
def test_ranks_that_have_one_column_in_common_have_not_parted(digests):
    common = set.intersection(*map(set, digests))
    alike = [column for column in common if len({each[column] for each in digests}) == 1]
    assert have_parted(digests) == (bool(common) and not alike)


def row(number):
    return np.full(4, number, np.int32), np.int32(number % 2)


def pipeline(source, **options):
    return ds.GeneratorDataset(source, ["ids", "label"], **options)


def permuted():
    yield from map(row, np.random.default_rng().permutation(NUM_ROWS))


def files_in_an_order_of_chance():
    yield from (row(4 * file + number) for file in np.random.default_rng().permutation(16) for number in range(4))


class Reshuffled:
    """Draws from a generator that is seeded alike on all ranks, and goes on in the next pass."""

    def __init__(self):
        self.chance = np.random.default_rng(5)

    def __iter__(self):
        return iter([row(number) for number in self.chance.permutation(NUM_ROWS)])


def in_order():
    yield from map(row, range(NUM_ROWS))


class Opened:
    """A file that is opened once, as a class."""

    def __init__(self, size=4096):
        self.numbers, self.size = itertools.count(), size

    def __iter__(self):
        return self

    def __next__(self):
        number = next(self.numbers)
        if number >= self.size:
            raise StopIteration
        return row(number)


class OpenedAgain(Opened):
    """A class as MindSpore's manual shows it: begins again."""

    def __iter__(self):
        self.numbers = itertools.count()
        return self


def behind_a_function():
    stream = map(row, range(NUM_ROWS))

    def rows():
        yield from stream

    return rows


class ByNumber:
    """Rows by number.

    Args:
        size: How many.
        change: What is done to the tokens of a row.
    """

    def __init__(self, size=NUM_ROWS, change=lambda ids: ids):
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


class OwnSampler(ds.Sampler):
    def __iter__(self):
        yield from np.random.default_rng().permutation(NUM_ROWS).tolist()


def changed(share):
    def change(ids):
        chance = np.random.default_rng()
        return np.where(chance.random(ids.shape) < share, np.int32(chance.integers(1000, 10**6)), ids)

    return change


def rarely(ids):
    return changed(1.0)(ids) if np.random.default_rng().random() < 0.01 else ids


def noise(ids):
    return np.random.default_rng().integers(0, 10**6, 16).astype(np.int32)


def masked(number, chance):
    """A row to learn words from: what is hidden is drawn in each pass, and so is each label."""
    ids, is_hidden = np.random.default_rng(number).integers(4, 1000, 24), chance.random(24) < 0.15
    return np.where(is_hidden, 3, ids).astype(np.int32), np.where(is_hidden, ids, -100).astype(np.int32)


def numbers():
    yield from ((np.int32(number),) for number in range(NUM_ROWS))


def masked_in_a_map():
    rows = ds.GeneratorDataset(numbers, ["number"])
    return rows.map(lambda number: masked(int(number), np.random.default_rng()), ["number"], ["ids", "label"])


def masked_by(chance):
    return pipeline(lambda: (masked(number, chance) for number in range(NUM_ROWS)))


def dropped_by_chance():
    chance = np.random.default_rng()
    return pipeline(in_order).filter(lambda ids: bool(chance.random() < 0.7), ["ids"])


def half_of_a_split():
    mapped = ds.GeneratorDataset(ByNumber(1024), ["ids", "label"], shuffle=False)
    return copy.deepcopy(mapped.split([0.3, 0.7])[1])


def is_shared(make, prepared=lambda rows: rows):
    """Whether three ranks, each with a pipeline of its own, find one order."""
    orders = [RowSample(prepared(make().batch(8))).read_in_order() for _ in range(3)]
    return all(keeps_its_order([*itertools.chain(*part)]) for part in zip(*orders))


REFUSED = {
    "permuted": lambda: pipeline(permuted),
    "permuted, augmented in a map": lambda: pipeline(permuted).map(changed(0.15), ["ids"]),
    "files in an order of chance": lambda: pipeline(files_in_an_order_of_chance),
    "a sampler of its own": lambda: pipeline(ByNumber(), sampler=OwnSampler(NUM_ROWS)),
    "a filter by chance": dropped_by_chance,
    "an iterator": lambda: pipeline(iter([row(number) for number in range(NUM_ROWS)])),
    "a function of one iterator": lambda: pipeline((lambda iterator: lambda: iterator)(map(row, range(4096)))),
    "an iterator at its end": lambda: pipeline((lambda iterator: lambda: iterator)(iter(()))),
    "opened once": lambda: pipeline(Opened()),
    "opened once, behind a function": lambda: pipeline(behind_a_function()),
    "opened once, behind another": lambda: pipeline(in_order) + pipeline(Opened()),
    "all of a row is random": lambda: masked_by(np.random.default_rng()),
}
SHARED = {
    "in order": lambda: pipeline(in_order),
    "a generator": lambda: pipeline(in_order()),
    "MindSpore's shuffle": lambda: pipeline(in_order).shuffle(16),
    "a seeded order that goes on": lambda: pipeline(Reshuffled()),
    "NumPy's common stream": lambda: pipeline(lambda: map(row, np.random.permutation(NUM_ROWS))),
    "begins again": lambda: pipeline(OpenedAgain()),
    "augmented in a map": lambda: pipeline(in_order).map(changed(1.0), ["ids"]),
    "masked in a map": masked_in_a_map,
    "masked by NumPy's stream": lambda: masked_by(np.random),
    "filtered": lambda: pipeline(in_order).filter(lambda ids: ids[0] % 3 > 0, ["ids"]),
    "filtered, once it is augmented": lambda: (
        pipeline(in_order).map(changed(1.0), ["ids"]).filter(lambda ids: True, ["ids"])
    ),
    "filtered to nothing": lambda: pipeline(in_order).filter(lambda ids: False, ["ids"]),
    "the same row": lambda: pipeline(lambda: itertools.repeat(row(2), NUM_ROWS)),
    "two passes": lambda: pipeline(in_order) + pipeline(in_order),
    "by number": lambda: pipeline(ByNumber(8, noise)).shuffle(16),
    "by number, augmented": lambda: pipeline(ByNumber(change=changed(0.15))),
    "half of a split": half_of_a_split,
    "values that are no arrays": lambda: ds.GeneratorDataset([({"text": str(n)},) for n in range(8)], ["row"]),
}


@pytest.mark.parametrize("prepared", [lambda rows: rows, lambda rows: shard(rows, 2, 0)], ids=["whole", "shard"])
@pytest.mark.parametrize("name", [*REFUSED, *SHARED])
def test_ranks_share_an_order_or_are_refused(name, prepared):
    assert is_shared({**REFUSED, **SHARED}[name], prepared) == (name in SHARED)


@pytest.mark.parametrize("size", [8, NUM_ROWS, 50_000])
def test_a_source_that_shuffles_itself_is_refused(size):
    assert not is_shared(lambda: pipeline(ShufflesItself(size)))


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


class ChangesLater(ByNumber):
    """Rows that ``change`` makes others when each rank has read half of them."""

    def __init__(self, change):
        super().__init__()
        self.left, self.change_later = (2 + READINGS + 1) * 32 + NUM_ROWS // 2, change

    def __getitem__(self, number):
        self.left -= 1
        if self.left == 0:
            self.change_later(self.numbers)
        return super().__getitem__(number)


def by_ranks(pipeline, rank):
    return shard(pipeline, 2, rank)


def by_micro_batches(pipeline, rank):
    return shard_micro_batches(pipeline, 4, [2 * rank, 2 * rank + 1])


def have_ranks_parted(make, deal, epochs=3):
    """Whether what two ranks have read is found to differ, after a sample that was equal."""
    witnesses = []
    for rank in range(2):
        pipeline = make().batch(8)
        share, sample = deal(pipeline, rank), RowSample(pipeline)
        sample.read_in_order()
        sample.read_often(READINGS)
        share.watch(sample.steady_columns(), sample.read)
        for epoch in range(epochs):
            share.set_epoch(epoch)
            list(share.create_dict_iterator(output_numpy=True))
        witnesses.append(share.witness)
    assert len({witness.count for witness in witnesses}) == 1 and witnesses[0].count
    return have_parted([witness.digests for witness in witnesses])


PARTED = {
    "of an own order later": lambda: pipeline(Later(BEFORE + 1)),
    "of an own order behind the sample": lambda: pipeline(Later(BEFORE + 2, 40)),
    "of an own order, augmented": lambda: pipeline(Later(BEFORE + 2, 32)).map(changed(0.15), ["ids"]),
    "by number, numbered anew": lambda: pipeline(ChangesLater(np.random.default_rng().shuffle)),
}
TOGETHER = {
    **{name: make for name, make in SHARED.items() if name not in ("filtered to nothing", "values that are no arrays")},
    "by number, changed alike": lambda: pipeline(ChangesLater(lambda numbers: np.add(numbers, 1, numbers))),
    "rarely augmented": lambda: pipeline(in_order).map(rarely, ["ids"]),
    "ids alone": lambda: ds.GeneratorDataset(ByNumber(), ["ids", "label"]).project(["ids"]).map(changed(0.15), ["ids"]),
}


@pytest.mark.parametrize("name", [*PARTED, *TOGETHER])
@pytest.mark.parametrize("deal", [by_ranks, by_micro_batches])
def test_ranks_that_read_other_rows_later_are_found(name, deal):
    assert have_ranks_parted({**PARTED, **TOGETHER}[name], deal) == (name in PARTED)


@pytest.mark.parametrize("says", [4088, 4104])
def test_a_length_that_is_not_what_is_read_ends_the_epoch_with_both_numbers(says):
    class SaysWrongly(OpenedAgain):
        def __len__(self):
            return says

    share = shard(pipeline(SaysWrongly()).batch(8), 2, 0)
    with pytest.raises(RuntimeError, match=f"4096 is different from generator.len {says}"):
        list(share.create_dict_iterator())
