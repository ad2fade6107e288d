import mindspore
from hypothesis import given
from hypothesis import strategies as st
from mindspore import dataset as ds

from mindnlp_dp_plugin import shard
from mindnlp_dp_plugin.data.evaluation import shard_for_evaluation
from tests.data.test_shard import PIPELINES, Table, numbers


def batches(pipeline):
    return [batch["row"].tolist() for batch in pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)]


def all_ranks(pipeline, num_replicas):
    """What the ranks read, put together, and proof that each rank's length is what it said."""
    shares = [shard_for_evaluation(pipeline, num_replicas, rank, seed=3) for rank in range(num_replicas)]
    read = [batches(share) for share in shares]
    assert [len(share) for share in shares] == [len(rows) for rows in read]
    return shares[0].in_order(read), read


@PIPELINES
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.sampled_from(["row", "batch"]))
def test_ranks_read_the_batches_of_one_process(num_rows, num_replicas, batch, drop_last, dealt_by):
    rows = Table(num_rows) if dealt_by == "row" else lambda: numbers(num_rows)
    pipeline = ds.GeneratorDataset(rows, ["row"], shuffle=False if dealt_by == "row" else None)
    if drop_last and num_rows < batch:
        return  # MindSpore refuses it
    pipeline = pipeline.batch(batch, drop_last)
    together, read = all_ranks(pipeline, num_replicas)
    assert together == batches(pipeline)
    assert max(map(len, read)) - min(map(len, read)) <= 1


@PIPELINES
@given(st.integers(1, 40), st.integers(1, 4), st.integers(2, 50))
def test_shuffles_are_left_out(num_rows, num_replicas, buffer):
    pipeline = ds.GeneratorDataset(Table(num_rows), ["row"], shuffle=True).shuffle(buffer).batch(4)
    together, _ = all_ranks(pipeline, num_replicas)
    assert [row for batch in together for row in batch] == list(range(num_rows))


def test_a_pipeline_that_has_to_run_whole_gives_each_row_once():
    pipeline = ds.GeneratorDataset(Table(30), ["row"], shuffle=True).filter(lambda row: row > 4, "row").batch(4)
    together, _ = all_ranks(pipeline, 3)
    assert sorted(row for batch in together for row in batch) == list(range(5, 30))


def test_the_test_half_of_a_split_has_no_rows_of_the_other():
    mindspore.set_seed(5)
    training, test = (half.batch(4) for half in ds.GeneratorDataset(Table(30), ["row"]).split([0.6, 0.4]))
    trained = {row for rank in range(2) for batch in batches(shard(training, 2, rank, seed=3)) for row in batch}
    together, _ = all_ranks(test, 2)
    assert sorted([*trained, *(row for batch in together for row in batch)]) == list(range(30))


def test_what_is_sharded_already_is_read_as_it_is():
    def pipeline(rank):
        return ds.GeneratorDataset(Table(12), ["row"], shuffle=False, num_shards=2, shard_id=rank).batch(4)

    def sharded(rank):
        return shard(ds.GeneratorDataset(Table(12), ["row"], shuffle=False).batch(4), 2, rank)

    for sharded_by_user in (pipeline, sharded):
        shares = [shard_for_evaluation(sharded_by_user(rank), 2, rank) for rank in range(2)]
        together = shares[0].in_order([batches(share) for share in shares])
        assert together == [[0, 2, 4, 6], [8, 10], [1, 3, 5, 7], [9, 11]]
        assert [len(share) for share in shares] == [2, 2]
        assert shares[0].get_batch_size() == 4
