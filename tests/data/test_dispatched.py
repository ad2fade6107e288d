"""How batches are dealt out, when a length is known, and what cannot be dealt out."""

import mindnlp_dp_plugin as dp  # isort: skip

import copy

import numpy as np
import pytest
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import DataParallelError
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.data.dispatched import Dispatched, DispatchedForEvaluation, is_read_once
from mindnlp_dp_plugin.data.sharded import ShardedDataset
from mindnlp_dp_plugin.step.dispatching import dispatch_for_evaluation, dispatch_training_rows
from tests.programs.tiny import tiny_dataset, tiny_rows, tiny_trainer


class Rows:
    """Counts the rows it gives, and notes the epochs it is told."""

    def __init__(self, num_rows):
        self.num_rows, self.num_given, self.epochs = num_rows, 0, []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        for row in range(self.num_rows):
            self.num_given += 1
            yield (np.int32(row),)


def batched(source, size=2, **options):
    return GeneratorDataset(source, ["row"], shuffle=False).batch(size, **options)


def on_ranks(pipeline, num_ranks, make):
    """What ``make`` gives each rank of a job: the reader's first, whose words the others hear."""
    said = []

    def say(value):
        said.append(value)
        return value

    heard = [iter(said) for _ in range(num_ranks - 1)]
    tells = [say, *(lambda _, words=words: next(words) for words in heard)]
    return [make(pipeline, rank, tell) for rank, tell in enumerate(tells)]


def read(dataset):
    return [batch["row"].tolist() for batch in dataset.create_dict_iterator(output_numpy=True)]


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("num_rows", [1, 11, 12, 13])
@pytest.mark.parametrize("drops", [False, True])
def test_ranks_take_turns_as_where_each_reads_all(num_ranks, num_rows, drops):
    pipeline = batched(Rows(num_rows), drop_remainder=drops)
    ranks = on_ranks(
        pipeline, num_ranks, lambda data, rank, tell: Dispatched(data, num_ranks, [rank], 1, rank == 0, tell, True)
    )
    batches = [list(range(first, min(first + 2, num_rows))) for first in range(0, num_rows, 2)]
    batches = [batch for batch in batches if len(batch) == 2 or not drops]
    turns = [batches[first : first + num_ranks] for first in range(0, len(batches), num_ranks)]
    turns = [turn for turn in turns if len(turn) == num_ranks or not drops]
    for rank, dataset in enumerate(ranks):
        assert len(dataset) == len(turns) and dataset.num_examples == len(turns) * 2 * num_ranks
        assert read(dataset) == [turn[rank % len(turn)] for turn in turns]


@pytest.mark.parametrize("skipped", [0, 1, 2, 5])
def test_an_epoch_that_goes_on_is_read_from_its_start_and_told(skipped):
    source = Rows(16)
    of_ranks = [[0, 1], [2, 3]]
    whole = on_ranks(
        batched(source), 2, lambda data, rank, tell: Dispatched(data, 4, of_ranks[rank], 1, rank == 0, tell, True)
    )
    for dataset in whole:
        dataset.set_epoch(3)
        dataset.start_at(3, skipped)
    mine = [[0, 1], [2, 3], [8, 9], [10, 11]]
    assert read(whole[0]) == mine[skipped:]
    assert source.epochs == [3]
    assert read(whole[1]) == [[row + 4 for row in batch] for batch in mine][skipped:]
    assert len(whole[0]) == 4


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("num_rows", [0, 1, 11, 12])
def test_each_batch_is_scored_on_one_rank(num_ranks, num_rows):
    ranks = on_ranks(
        batched(Rows(num_rows)),
        num_ranks,
        lambda data, rank, tell: DispatchedForEvaluation(data, num_ranks, rank, 1, tell),
    )
    found = ranks[0].in_order([read(dataset) for dataset in ranks])
    assert [row for batch in found for row in batch] == list(range(num_rows))
    with pytest.raises(TypeError, match="not known"):
        len(ranks[0])


def alone(pipeline, counts, seed=1):
    return Dispatched(pipeline, 1, [0], seed, True, lambda value: value, counts)


def test_shuffles_draw_each_epoch_anew_and_alike_when_it_goes_on():
    pipeline = GeneratorDataset(np.arange(64), ["row"], shuffle=True).batch(4)
    whole, again, other = (alone(pipeline, counts=True, seed=seed) for seed in (1, 1, 2))
    epochs = []
    for epoch in range(3):
        for dataset in (whole, again, other):
            dataset.set_epoch(epoch)
        epochs.append(read(whole))
        again.start_at(epoch, 5)
        assert read(again) == epochs[-1][5:] and read(other) != epochs[-1]
        assert sorted(sum(epochs[-1], [])) == list(range(64))
    assert epochs[0] != epochs[1] != epochs[2]


def test_rows_are_read_for_a_length_only_if_it_is_wanted():
    source = Rows(6)
    assert alone(batched(source), counts=False).num_steps is None and source.num_given == 0
    assert alone(batched(source), counts=True).num_steps == 3 and source.num_given == 6
    assert alone(tiny_dataset(12, 4), counts=False).num_steps == 3
    filtered = tiny_rows(12).filter(lambda words: True, ["input_ids"]).batch(4)
    assert alone(filtered, counts=False).num_steps is None and alone(filtered, counts=True).num_steps == 3


def test_a_source_that_can_be_read_once_is_never_read_for_a_length():
    rows = map(lambda row: row, Rows(6))  # MindSpore keeps the rows of a generator
    pipeline = batched(rows)
    assert is_read_once(pipeline) and not is_read_once(batched(Rows(6))) and not is_read_once(tiny_dataset())
    assert (
        not is_read_once(batched(lambda: iter(Rows(6))))
        and alone(copy.deepcopy(tiny_dataset(12, 4)), False).num_steps == 3
    )
    dataset = alone(pipeline, counts=True)
    assert dataset.num_steps is None and dataset.num_examples is None
    assert read(dataset) == [[0, 1], [2, 3], [4, 5]] and read(dataset) == []


def test_what_is_sharded_already_is_refused():
    sharded = GeneratorDataset(list(range(8)), ["row"], num_shards=2, shard_id=0).batch(2)
    for dataset in (sharded, dp.shard(tiny_dataset(), 2, 0)):
        assert isinstance(dataset, ShardedDataset) or dataset is sharded
        with pytest.raises(DataParallelError, match="dispatch_batches: train_dataset is sharded already"):
            dispatch_training_rows(dataset, SingleProcess(), {}, 1)
        with pytest.raises(DataParallelError, match="dispatch_batches: The data set to evaluate is sharded already"):
            dispatch_for_evaluation(dataset, SingleProcess(), 1)


def test_too_few_rows_are_refused():
    with pytest.raises(DataParallelError, match="too few rows for one batch of 8"):
        dispatch_training_rows(tiny_dataset(3, 8, drop_remainder=True), SingleProcess(), {}, 1)


@pytest.fixture
def dispatching():
    dp.install(dp.DataParallelConfig(dispatch_batches=True))
    yield
    dp.install()


def test_what_does_not_go_with_it(dispatching, tmp_path):
    with pytest.raises(DataParallelError, match="group_by_length=True with dispatch_batches"):
        tiny_trainer(tmp_path, group_by_length=True).train()


def test_epochs_of_what_can_be_read_once_are_refused_as_mindnlp_does(dispatching, tmp_path):
    rows = iter(tiny_rows(64).create_tuple_iterator(num_epochs=1, output_numpy=True))
    once = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(8)
    with pytest.raises(ValueError, match="max_steps has to be specified"):
        tiny_trainer(tmp_path, dataset=once, max_steps=-1, num_train_epochs=2)
