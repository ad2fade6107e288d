"""Nobody trains apart in silence: a step on gradients that nobody averaged ends before the parameters change."""

import json

import pytest

from tests.harness import run_ranks_successfully

APART = {
    "mindnlp_adamw": "AdamW",
    "an_optimizer_of_ones_own": "Sgd",
    "with_a_scheduler": "SGD",
    "the_loss_alone_is_summed": "SGD",
    "mindspore_in_pynative": "SGD",
    "mindspore_in_graph": "SGD",
    "mindspore_jit": "SGD",
    "mindspore_experimental": "Adam",
    "mindspore_model": "Momentum",
}
FINE = ("averaged_by_hand", "predicts_only")


@pytest.fixture
def found_on(output_of):
    def found(backend, loop):
        output = output_of("trains_apart.py", *APART, *FINE, "averaged_once_only", ranks=2, backend=backend)
        return [json.loads((output / f"{loop}-{rank}").read_text()) for rank in (0, 1)]

    return found


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", APART)
def test_the_first_step_is_refused_and_names_the_optimizer(found_on, backend, loop):
    of_mindnlp = "model, optimizer, rows = dp.prepare(model, optimizer, rows)"
    way_out = "mindspore.nn.DistributedGradReducer" if loop.startswith("mindspore") else of_mindnlp
    for found in found_on(backend, loop):
        assert found["ended"].startswith(f"DataParallelError: {APART[loop]} steps on gradients that were not averaged")
        assert way_out in found["ended"]
        assert len(found["ended"].splitlines()) == 1
        assert not found["has_changed"]


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_who_averages_or_does_not_train_is_left_alone(found_on, backend):
    for loop in FINE:
        one, other = found_on(backend, loop)
        assert one["ended"] is None and one == other
        assert one["has_changed"] == (loop == "averaged_by_hand")


def test_averaging_the_first_step_alone_is_not_enough(found_on):
    one, other = found_on("mpi", "averaged_once_only")
    assert "SGD steps on gradients" in one["ended"] and one == other and one["has_changed"]


def test_a_setting_lets_ranks_train_apart_and_begin_with_different_models(tmp_path):
    loops = ("mindspore_from_different_models", "mindnlp_adamw", "mindspore_in_pynative")
    job = dict(ranks=2, backend="mpi", log_dir=tmp_path / "logs", env={"MINDNLP_DP_TRAIN_APART": "1"})
    run_ranks_successfully("trains_apart.py", tmp_path, *loops, **job)
    one, other = (json.loads((tmp_path / f"mindnlp_adamw-{rank}").read_text()) for rank in (0, 1))
    assert one["ended"] is None and one["has_changed"] and one["values"] != other["values"]


def test_one_process_trains_as_it_always_did(in_turn):
    found = json.loads((in_turn("trains_apart.py") / "mindnlp_adamw-0").read_text())
    assert found["ended"] is None and found["has_changed"]
