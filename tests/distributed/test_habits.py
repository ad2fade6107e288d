"""What users do beyond the stock loop ends on ranks as in one process, or is refused by name."""

import json

import numpy as np
import pytest

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import decorated_functions

NUM_RANKS = 2
REFUSALS = {
    "a_buffer_that_is_not_saved_and_differs": "Buffers differ before training: scale on rank(s) 1 is not what",
    "never_initialised": "Never initialised: classifier.weight. They were made by",
    "new_on_one_rank": "Optimizers of ranks differ after step 2: bert.pooler.dense.weight is absent on rank 0",
    "new_too_late": "They are bert.pooler.dense.weight, bert.pooler.dense.bias. Give the optimizer",
    "loss_weight_on_one_rank": "optimizer.param_groups[0]['params'][",
    "planted_in_a_loss_weight": "Replicas differ after step 6: optimizer.param_groups[0]['params'][",
    "an_optimizer_of_a_callback": "SGD steps beside AdamW on gradients that were not averaged over the ranks.",
}
HABITS = [name for name in decorated_functions("habits.py") if name not in REFUSALS]


@pytest.fixture(scope="module")
def one_process(in_turn):
    return in_turn("habits.py")


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def of_ranks(request, in_turn):
    return in_turn("habits.py", NUM_RANKS, request.param)


@pytest.mark.parametrize("habit", HABITS)
def test_ranks_end_as_one_process(one_process, of_ranks, habit):
    expected = np.load(one_process / f"{habit}.rank0.npz")["parameters"]
    first, *others = [np.load(of_ranks / f"{habit}.rank{rank}.npz")["parameters"] for rank in range(NUM_RANKS)]
    for other in others:
        np.testing.assert_array_equal(other, first)
    np.testing.assert_allclose(first, expected, rtol=0, atol=2e-6)


def test_save_model_on_every_rank_leaves_whole_checkpoints_alone(of_ranks):
    assert {path.name for path in (of_ranks / "saved").iterdir()} == {
        "checkpoint-4",
        "checkpoint-6",
        "incomplete-notes",
    }
    for step in (4, 6):
        assert store.read_record(of_ranks / "saved" / f"checkpoint-{step}").micro_steps == step


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_ranks_cannot_follow_is_named_on_all_of_them(of_ranks, refusal):
    of_each = [json.loads((of_ranks / f"said.rank{rank}.json").read_text())[refusal] for rank in range(NUM_RANKS)]
    assert REFUSALS[refusal] in of_each[0] and of_each[1] == of_each[0]
