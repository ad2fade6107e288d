"""Options of MindNLP's Trainer that look at all ranks' rows, or draw by chance, hold on ranks or are refused."""

import json

import pytest


@pytest.fixture(scope="module")
def ranks(in_turn):
    output = in_turn("trainer_options.py", 2, "mpi")
    return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_tokens_of_all_ranks_are_counted(ranks):
    assert [rank["tokens"] for rank in ranks] == [4 * 2 * 8 * 12] * 2
    for rank in ranks:
        assert rank["tokens_per_second"] == pytest.approx(4 * 2 * 8 * 12, rel=0.01)  # both factors are rounded


def test_neftune_draws_noise_by_rank_the_same_in_each_run_and_takes_it_away(ranks):
    for rank in ranks:
        first, second = rank["noisy"]
        assert first == second and first["parameters"] != rank["plain"]["parameters"]
        assert first["embedded"] != rank["plain"]["embedded"] and not first["is_left"]
    assert ranks[0]["noisy"][0]["parameters"] == ranks[1]["noisy"][0]["parameters"]
    assert ranks[0]["noisy"][0]["embedded"] != ranks[1]["noisy"][0]["embedded"]
    assert ranks[0]["plain"]["embedded"] == ranks[1]["plain"]["embedded"]


def test_neftune_goes_on_with_its_noise_and_leaves_the_scripts_own_draws_alone(ranks):
    for rank in ranks:
        assert rank["resumed"]["parameters"] == rank["noisy"][0]["parameters"]
        assert rank["noisy"][0]["next_draw"] == rank["plain"]["next_draw"]


def test_what_mindnlp_does_not_read_changes_nothing(ranks):
    assert all(rank["unread"]["parameters"] == rank["plain"]["parameters"] for rank in ranks)


def test_smoothed_labels_train_the_same_model_on_all_ranks(ranks):
    """That it is the one of one process is in the oracle's scenarios."""
    first, second = (rank["smoothed"]["parameters"] for rank in ranks)
    assert first == second != ranks[0]["plain"]["parameters"]


def test_a_batch_size_that_each_rank_finds_by_itself_is_refused(ranks):
    for rank in ranks:
        assert rank["auto_find_batch_size"].startswith("auto_find_batch_size=True: a rank that runs out of memory")
