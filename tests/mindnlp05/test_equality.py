"""N ranks train as one process with N times the batch does, and hold the same bits after each step."""

import numpy as np
import pytest

from tests.harness import REPOSITORY, run
from tests.mindnlp05.conftest import PROGRAMS

ALL = (
    *("bert_sgd", "bert_adamw", "roberta_adamw", "distilbert_sgd", "llama_lora", "qwen2_lora", "gpt2_sgd"),
    *("gpt2_adamw", "masked_bert", "t5", "bart", "smoothed_bert", "smoothed_gpt2", "accumulation"),
    *("accumulated_tokens", "unclipped", "momentum", "frozen", "unused"),
    *("llama_regression", "llama_classifier", "token_classifier"),
    *("sums_itself", "sums_itself_accumulated", "takes_the_mean", "loss_function", "flattened"),
    *("flattened_accumulated", "flattened_mean", "nested", "doubled"),
    *(
        "of_the_model",
        "of_the_model_and_counted",
        "in_batch_negatives",
        "in_batch_negatives_accumulated",
        "class_weights",
        "tags",
        "adds_a_term",
        "decays_all",
        "reads_a_part",
        "drops_the_last",
        "not_across_devices",
        "own_loaders",
        "prepared_loaders",
    ),
)
# The engine and a third rank could change these; ``make test-mindnlp05-slow`` runs the others so, too.
MOST = ("bert_adamw", "gpt2_sgd", "t5", "llama_regression", "sums_itself_accumulated", "flattened", "doubled")
OTHERS = [name for name in ALL if name not in MOST]
BOUND = 2e-6


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    import sys

    output = tmp_path_factory.mktemp("alone")
    finished = run([sys.executable, PROGRAMS / "scenarios.py", output, *ALL], cwd=REPOSITORY)
    assert finished.returncode == 0, finished.stderr
    return output


def require_equal(name, of_ranks, alone, ranks):
    results = [np.load(of_ranks / f"{name}.rank{rank}.npz") for rank in range(ranks)]
    expected = np.load(alone / f"{name}.rank0.npz")
    for result in results[1:]:
        np.testing.assert_array_equal(result["digests"], results[0]["digests"])
    assert len(set(results[0]["digests"])) == len(expected["digests"]), "each step changes the model"
    np.testing.assert_allclose(results[0]["parameters"], expected["parameters"], rtol=0, atol=BOUND)
    np.testing.assert_allclose(results[0]["score"], expected["score"], rtol=0, atol=BOUND)
    np.testing.assert_allclose(results[0]["losses"], expected["losses"], rtol=0, atol=1.1e-4)  # logged so rounded


@pytest.mark.parametrize("name", ALL)
def test_two_ranks_over_mpi(ranks_of, alone, name):
    require_equal(name, ranks_of("scenarios.py", *ALL, ranks=2), alone, 2)


@pytest.mark.parametrize("name", MOST)
def test_two_ranks_over_mccl(ranks_of, alone, name):
    require_equal(name, ranks_of("scenarios.py", *MOST, ranks=2, backend="mccl"), alone, 2)


@pytest.mark.parametrize("name", MOST)
def test_three_ranks(ranks_of, alone, name):
    require_equal(name, ranks_of("scenarios.py", *MOST, ranks=3), alone, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_two_ranks_over_mccl_too(ranks_of, alone, name):
    require_equal(name, ranks_of("scenarios.py", *OTHERS, ranks=2, backend="mccl"), alone, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_three_ranks_too(ranks_of, alone, name):
    require_equal(name, ranks_of("scenarios.py", *OTHERS, ranks=3), alone, 3)
