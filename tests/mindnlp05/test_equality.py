"""N ranks train as one process with N times the batch does, and hold the same bits after each step."""

import numpy as np
import pytest

ALL = (
    *("bert_sgd", "bert_adamw", "roberta_adamw", "distilbert_sgd", "llama_lora", "qwen2_lora", "gpt2_sgd"),
    *("gpt2_adamw", "experts", "masked_bert", "t5", "bart", "smoothed_bert", "smoothed_gpt2", "accumulation"),
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
        "plain_class_weights",
        "leaves_out_zero",
        "leaves_out_the_number_of_classes",
        "class_weights_by_name",
        "of_chosen_words",
        "root_of_a_mean",
        "normalised",
        "pretraining",
        "tags",
        "adds_a_term",
        "adds_a_term_later",
        "draws_a_term",
        "own_step",
        "own_step_of_a_sum",
        "decays_all",
        "reads_a_part",
        "other_in_each_epoch",
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


JOBS = {(2, "mpi"): [ALL], (2, "mccl"): [MOST, OTHERS], (3, "mpi"): [MOST, OTHERS]}
TRAININGS = [
    pytest.param(job, names, name, marks=[pytest.mark.slow] if names is OTHERS else [], id=f"{job}-{name}")
    for job, lists in JOBS.items()
    for names in lists
    for name in names
]


@pytest.mark.parametrize(("job", "names", "name"), TRAININGS)
def test_ranks_equal_one_process_with_their_batches(ranks_of, job, names, name):
    ranks, backend = job
    of_ranks = ranks_of("scenarios.py", *names, ranks=ranks, backend=backend)
    results = [np.load(of_ranks / f"{name}.rank{rank}.npz") for rank in range(ranks)]
    expected = np.load(ranks_of("scenarios.py", *ALL, ranks=1) / f"{name}.rank0.npz")
    for result in results[1:]:
        np.testing.assert_array_equal(result["digests"], results[0]["digests"])
    assert len(set(results[0]["digests"])) == len(expected["digests"]), "each step changes the model"
    np.testing.assert_allclose(results[0]["parameters"], expected["parameters"], rtol=0, atol=BOUND)
    np.testing.assert_allclose(results[0]["score"], expected["score"], rtol=0, atol=BOUND)
    np.testing.assert_allclose(results[0]["losses"], expected["losses"], rtol=0, atol=1.1e-4)  # logged so rounded
