import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindnlp_dp_plugin import DataParallelError, DistributedSampler
from mindnlp_dp_plugin.data.sampler import shuffled_order
from tests.oracles.sampler import rows_of_rank

ROWS = st.integers(1, 200)
RANKS = st.integers(1, 9)
MANY = settings(max_examples=600)


def deal(num_rows, num_replicas, epoch=0, **options):
    """What each rank reads in an epoch."""
    ranks = []
    for rank in range(num_replicas):
        sampler = DistributedSampler(num_rows, num_replicas, rank, **options)
        sampler.set_epoch(epoch)
        ranks.append(list(sampler))
        assert len(ranks[-1]) == len(sampler)
    return ranks


@MANY
@given(ROWS, RANKS, st.booleans())
def test_unshuffled_rows_are_dealt_as_torch_deals_them(num_rows, num_replicas, drop_last):
    ranks = deal(num_rows, num_replicas, shuffle=False, drop_last=drop_last)
    assert ranks == [rows_of_rank(range(num_rows), num_replicas, rank, drop_last) for rank in range(num_replicas)]


@MANY
@given(ROWS, RANKS, st.booleans(), st.integers(0, 2**31), st.integers(0, 5), st.one_of(st.none(), st.integers(2, 250)))
def test_each_row_is_read_once_or_once_more_as_padding(num_rows, num_replicas, drop_last, seed, epoch, buffer):
    ranks = deal(num_rows, num_replicas, epoch, seed=seed, drop_last=drop_last, shuffle_buffer=buffer)
    order = shuffled_order(num_rows, buffer or num_rows, seed, epoch)
    assert sorted(order) == list(range(num_rows))
    assert ranks == [rows_of_rank(order, num_replicas, rank, drop_last) for rank in range(num_replicas)]
    read = [row for rows in ranks for row in rows]
    if drop_last:
        assert len(set(read)) == len(read) > num_rows - num_replicas
    else:
        assert set(read) == set(range(num_rows)) and len(read) < num_rows + num_replicas


@MANY
@given(st.integers(30, 200), RANKS, st.integers(0, 2**31), st.one_of(st.none(), st.integers(5, 250)))
def test_another_order_each_epoch_and_the_same_for_the_same_seed(num_rows, num_replicas, seed, buffer):
    options = {"seed": seed, "shuffle_buffer": buffer}
    epochs = [deal(num_rows, num_replicas, epoch, **options) for epoch in (0, 1, 2)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert epochs[1] == deal(num_rows, num_replicas, 1, **options)
    assert epochs[1] != deal(num_rows, num_replicas, 1, seed=seed + 1, shuffle_buffer=buffer)


@MANY
@given(st.integers(2, 200), st.integers(2, 50), st.integers(0, 1000))
def test_a_buffer_lets_no_row_out_before_it_came_in(num_rows, buffer, seed):
    order = shuffled_order(num_rows, buffer, seed, epoch=0)
    assert all(row < position + buffer for position, row in enumerate(order))


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((0, 2, 0), "num_samples=0"),
        ((-3, 2, 0), "num_samples=-3"),
        ((5, 0, 0), "num_replicas=0"),
        ((5, 2, 2), "rank=2"),
        ((5, 2, -1), "rank=-1"),
    ],
)
def test_bad_numbers_are_named(arguments, named):
    with pytest.raises(DataParallelError, match=named):
        DistributedSampler(*arguments)


@pytest.mark.parametrize("buffer", [0, -4])
def test_a_buffer_that_holds_nothing_is_named(buffer):
    with pytest.raises(DataParallelError, match=f"shuffle_buffer={buffer}"):
        DistributedSampler(5, 2, 0, shuffle_buffer=buffer)
