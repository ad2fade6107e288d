"""Ranks that hold other rows, labels or numbers of labels are told so before they train or score."""

import re

import pytest

from tests.harness import run_ranks_successfully

# Which row is the first to differ is chance: it depends on how each rank orders the set.
ERRORS = {
    "permuted_in_each_pass": "train_dataset gives its rows in a new order in each pass, different on each rank",
    "streamed_and_shuffled_without_a_seed": "train_dataset gives its rows in a new order in each pass",
    "evaluated_in_an_order_of_its_own": "The data set to evaluate gives its rows in a new order in each pass",
    "opened_once": "train_dataset can be read only once: a second pass .* rank 0 alone read it: dispatch_batches=True",
    "permuted_later": "train_dataset has given ranks different rows since training began",
    "renumbered_later": "train_dataset has given ranks different rows since training began",
    "labels_numbered_by_a_set": r"train_dataset, row \d+, column 'labels' differs between ranks: rank 0 has ",
    "rows_from_a_set": r"train_dataset, row \d+, column 'input_ids' differs between ranks: rank 0 has \[",
    "filtered_rows_from_a_set": r"train_dataset, batch 0, column 'input_ids' differs between ranks: rank 0 has \[",
    "labels_of_evaluation_numbered_by_a_set": r"data set to evaluate, row \d+, column 'labels' differs between ranks",
    "accumulation_by_rank": r"TrainingArguments\.gradient_accumulation_steps differs between ranks: rank 0 has 1; rank",
    "label_mapping_numbered_by_a_set": r"model\.config\.label2id differs between ranks: rank 0 has \{'",
    "evaluation_data_of_another_length": "to evaluate differs between ranks: rank 0 has 24 rows; rank 1 has 23 rows",
}


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def output(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("differing_data")
    # As under srun, mpirun and msrun, each rank hashes strings in its own way, and so orders sets.
    env = {"PYTHONHASHSEED": "random"}
    job = dict(ranks=2, backend=request.param, log_dir=folder / "logs", env=env)
    run_ranks_successfully("differing_data.py", folder, **job)
    return folder


@pytest.mark.parametrize("mistake", ERRORS)
def test_the_error_names_what_differs(output, mistake):
    assert re.search(ERRORS[mistake], (output / f"{mistake}.txt").read_text())


def test_rows_that_are_random_by_design_may_differ(output):
    assert len(list(output.glob("trained_*"))) == 6
