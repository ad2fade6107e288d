"""Metrics, unfreezing, torch.distributed and what is refused: as one process, or by name."""

import pytest

RANKS = 2


@pytest.fixture(scope="module")
def alone(notes_of):
    return notes_of("behaviours.py", ranks=1)[0]


@pytest.fixture(scope="module", params=["mpi", "mccl"])
def together(notes_of, request):
    return notes_of("behaviours.py", ranks=RANKS, backend=request.param)


def test_each_row_counts_once_in_metrics_predictions_and_the_loss(alone, together):
    expected = alone["evaluation"]
    for found in (rank["evaluation"] for rank in together):
        assert (found["rows"], found["right"], found["labels"]) == (29, expected["right"], expected["labels"])
        assert found["loss"] == pytest.approx(expected["loss"], abs=2e-6)
        for row, expected_row in zip(found["predicted"], expected["predicted"], strict=True):
            assert row == pytest.approx(expected_row, abs=2e-6)
    assert alone["evaluation_of_sequences"][:2] == together[0]["evaluation_of_sequences"][:2] == [29, 29]
    for name in ("evaluation_of_sequences", "evaluation_by_loaders_of_ones_own"):
        assert together[0][name] == pytest.approx(alone[name], abs=2e-6)
    assert together[0]["token_evaluation"] == pytest.approx(alone["token_evaluation"], abs=2e-6)


def test_the_best_checkpoint_is_known_and_kept_as_in_one_process(alone, together):
    for found in (alone, *together):
        assert found["the_best_checkpoint_is_saved_before_it_is_scored"] == ["checkpoint-3", ["checkpoint-3"]]


def test_work_is_counted_as_in_one_process(alone, together):
    for rank in together:
        assert rank["work"] == pytest.approx(alone["work"], rel=1e-5)


def test_metrics_are_those_of_rank_0(together):
    assert len({rank["metrics_that_ranks_measure_apart"] for rank in together}) == 1


@pytest.mark.parametrize("what", ["read", "evaluated", "model"])
def test_ranks_draw_apart_and_each_batch_anew(together, what):
    of_ranks = [rank["draws"][what] for rank in together]
    generators = ("numpy", "torch", "filled") if what == "model" else ("python", "numpy", "torch", "filled")
    for generator in generators:
        drawn = [each[generator] for rank in of_ranks for each in rank]
        assert len(set(drawn)) == len(drawn) > 4, generator


@pytest.mark.parametrize("what", ["start", "callback", "behind"])
def test_what_is_not_a_batch_ranks_draw_alike(together, what):
    first, second = (rank["draws"][what] for rank in together)
    assert first == second and first


@pytest.mark.parametrize(
    "what",
    [
        *("second_training_and_unfreezing", "unfrozen_by_a_callback", "a_subclass_with_a_loss_of_its_own"),
        *("what_no_log_shows", "a_step_without_labels", "a_loss_that_gathers"),
        "evaluation_without_padding",
    ],
)
def test_training_as_in_one_process(alone, together, what):
    def flat(value):
        return [number for part in value for number in flat(part)] if isinstance(value, list) else [value]

    for rank in together:
        assert flat(rank[what]) == pytest.approx(flat(alone[what]), abs=2e-5)  # noted to five digits


def test_what_was_frozen_trains_when_it_is_unfrozen(alone):
    first, second, _ = alone["second_training_and_unfreezing"]
    of_the_head = 5
    changed = [before != after for before, after in zip(first, second, strict=True)]
    assert sum(changed[:-of_the_head]) > 20  # many gradients are below the fifth digit


def test_rows_that_ranks_pad_to_other_lengths_are_named_once_if_nothing_masks_them(alone, together):
    assert alone["rows_padded_apart"] == []
    assert [len(rank["rows_padded_apart"]) for rank in together] == [1] * RANKS
    assert together[0]["rows_padded_apart"][0].startswith("Each rank pads its batch to its own longest row (")


@pytest.mark.parametrize("sampler", ["by_length", "weighted"])
def test_each_row_is_read_once_in_each_epoch_whatever_gives_the_order(together, sampler):
    first, second = together[0]["orders"][sampler]
    assert sorted(first) == sorted(second) == [*range(24)]
    assert first != second


def test_functions_of_torch_distributed(together):
    for rank, found in enumerate(each["distributed_functions"] for each in together):
        assert found["place"] == [rank, RANKS, True]
        assert found["summed"] == [3.0, 4.0] and found["largest"] == [1, 5] and found["sent"] == [1.0]
        assert found["gathered"] == [[1.0, 2.0], [2.0, 2.0]] and found["whole"] == [0, 0, 1, 1]
        assert found["objects"] == [{"rank": 0}, {"rank": 1}] and found["told"] == ["of 0"]
        assert found["on_zero"] == ([0, 1] if rank == 0 else None)
        assert "only the group of all ranks exists" in found["new_group"]


def test_all_gradients_come_through_hooks_and_buckets_start_before_backward_ends(together):
    for found in (rank["gradients_come_through_hooks"] for rank in together):
        assert found["hooks"] == found["parameters"] > 30
        assert found["buckets that had started"] > 3


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("gradient_checkpointing", "gradient_checkpointing=True"),
        ("fp16", "fp16=True"),
        ("fused", "fused=True"),
        ("fsdp", "fsdp='full_shard'"),
        ("deepspeed", "deepspeed={"),
        ("workers", "dataloader_num_workers=2"),
        ("backward", "loss.backward()"),
        ("prepare", "dp.prepare is for MindNLP 0.4"),
    ],
)
def test_refused_by_name_in_one_process_too(alone, together, what, named):
    for found in (alone, *together):
        assert named in found["refusals"][what]


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("auto_find_batch_size", "auto_find_batch_size=True"),
        ("even_batches", "even_batches=False"),
        ("loaders", "OwnBatches reads rows from a DataLoader of its own"),
        ("buckets", "Buckets gives a batch of fewer than 4 rows before the end of a pass"),
        ("dealt", "DistributedSampler divides the rows among ranks"),
        ("dealt_and_prepared", "DistributedSampler divides the rows among ranks"),
        ("rows", "train_dataset differs between ranks: rank 0 has 24 rows; rank 1 has 25 rows"),
        ("other_rows", "train_dataset, row 0, column 'attention_mask' differs between ranks"),
        ("other_held", "The data set to evaluate, row 0, column 'attention_mask' differs between ranks"),
        ("zero_stage", "zero_stage=1"),
    ],
)
def test_refused_by_name_on_ranks(together, what, named):
    for rank in together:
        assert named in rank["refusals"][what]


def test_an_optimizer_that_nobody_averages_for(together):
    for rank in together:
        assert "SGD steps on gradients that were not averaged" in rank["an_optimizer_of_ones_own"]
        assert "transformers.Trainer" in rank["an_optimizer_of_ones_own"]
