"""Ranks that hold other rows, labels or numbers of labels are told so before they train or score."""

import re

import pytest

from tests.harness import run_ranks_successfully

# Which row is the first to differ is chance: it depends on how each rank orders the set.
ERRORS = {
    "labels_numbered_by_a_set": r"train_dataset, row \d+, column 'labels' differs between ranks: rank 0 has ",
    "rows_from_a_set": r"train_dataset, row \d+, column 'input_ids' differs between ranks: rank 0 has \[",
    "filtered_rows_from_a_set": r"train_dataset, batch 0, column 'input_ids' differs between ranks: rank 0 has \[",
    "labels_of_evaluation_numbered_by_a_set": r"data set to evaluate, row \d+, column 'labels' differs between ranks",
    "seeds_by_rank": r"TrainingArguments\.seed differs between ranks: rank 0 has 42; rank 1 has 43\. Give every rank",
    "accumulation_by_rank": r"TrainingArguments\.gradient_accumulation_steps differs between ranks: rank 0 has 1; rank",
    "label_mapping_numbered_by_a_set": r"model\.config\.label2id differs between ranks: rank 0 has \{'",
    "evaluation_data_of_another_length": "to evaluate differs between ranks: rank 0 has 24 rows; rank 1 has 23 rows",
}


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_the_error_names_what_differs(tmp_path, backend):
    # As under srun, mpirun and msrun, each rank hashes strings in its own way, and so orders sets.
    env = {"PYTHONHASHSEED": "random"}
    run_ranks_successfully("differing_data.py", tmp_path, ranks=2, backend=backend, log_dir=tmp_path / "logs", env=env)
    for mistake, pattern in ERRORS.items():
        assert re.search(pattern, (tmp_path / f"{mistake}.txt").read_text())


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_rows_that_are_random_by_design_may_differ(tmp_path, backend):
    run_ranks_successfully("random_rows.py", tmp_path, ranks=2, backend=backend, log_dir=tmp_path / "logs")
    assert len(list(tmp_path.glob("trained_*"))) == 6
