"""Where chance decides which rows there are, every rank and every epoch must decide alike."""

import pytest
from mindspore import dataset as ds

from mindnlp_dp_plugin import shard
from tests.data.test_shard import Table, all_ranks, batches, flat

NO_SEED = 5489


@pytest.fixture(autouse=True)
def seed_of_the_user():
    before = ds.config.get_seed()
    ds.config.set_seed(5)
    yield
    ds.config.set_seed(before)


def rows(**options):
    return ds.GeneratorDataset(Table(20), ["row"], **options)


def filtered(halves):
    return [half.filter(lambda row: row >= 0, ["row"]) for half in halves]


SPLITS = {
    "the source": lambda: rows(shuffle=False).split([15, 5]),
    "the source, then a filter": lambda: filtered(rows(shuffle=False).split([15, 5])),
    "after a map": lambda: rows(shuffle=False).map(lambda row: row, ["row"]).split([15, 5]),
    "a shuffled source": lambda: rows().split([15, 5]),
    "then shuffled": lambda: [half.shuffle(4) for half in rows(shuffle=False).split([15, 5])],
}


@pytest.mark.parametrize("kind", SPLITS)
def test_no_epoch_trains_on_rows_of_the_test_half(kind):
    train, test = (half.batch(1) for half in SPLITS[kind]())
    held_out = {row for [row] in (batch["row"] for batch in test.create_dict_iterator(num_epochs=1, output_numpy=True))}
    assert len(held_out) == 5
    for epoch in range(3):
        assert set(flat(all_ranks(train, 2, epoch))) == set(range(20)) - held_out


def test_a_shuffle_after_the_split_still_differs_from_epoch_to_epoch():
    train = SPLITS["then shuffled"]()[0].batch(1)
    assert all_ranks(train, 2, epoch=0) != all_ranks(train, 2, epoch=1)


def test_the_first_of_shuffled_rows_are_the_same_in_each_epoch():
    pipeline = rows(shuffle=False).shuffle(20).take(6).batch(1)
    assert all_ranks(pipeline, 2, epoch=0) == all_ranks(pipeline, 2, epoch=1)


@pytest.mark.parametrize("kind", SPLITS)
def test_ranks_agree_on_a_split_that_nobody_seeded(kind):
    ds.config.set_seed(NO_SEED)
    train = SPLITS[kind]()[0].batch(1)
    assert len(set(flat(all_ranks(train, 2)))) == 15


def test_ranks_agree_when_the_plugins_seed_is_the_one_that_means_none():
    """5489 asks MindSpore for a new order each time: it must not get through, whatever seed and epoch are."""
    pipeline = rows().filter(lambda row: row >= 0, ["row"]).batch(1)
    for seed, epoch in ((NO_SEED, 0), (0, NO_SEED), (NO_SEED - 1, 1)):
        assert set(flat(all_ranks(pipeline, 2, epoch, seed))) == set(range(20))
    assert batches(shard(pipeline, 2, 0, seed=0), 1) != batches(shard(pipeline, 2, 0, seed=1), 0)
