"""Models of many families train on 2 ranks as in one process, from weights that are drawn, and are loaded as saved.

``benchmarks/families.py`` does it with all families and all their heads.
"""

import pytest

from tests.families.outcomes import difference_of_ranks, journal
from tests.harness import run_ranks_successfully

ON_MCCL_TOO = [
    "albert/masked_lm",
    "distilbert/sequence_classification",
    "gpt2/causal_lm",
    "mbart/seq2seq_lm",
    "opt/causal_lm",
    "t5/seq2seq_lm",
]
ENCODERS = [
    "convbert/sequence_classification",
    "deberta/sequence_classification",
    "deberta_v2/multiple_choice",
    "electra/multi_label",
    "ernie/question_answering",
    "roberta/regression",
    "xlm_roberta/token_classification",
]
DECODERS = [
    "bloom/token_classification",
    "falcon/causal_lm",
    "gpt_neo/causal_lm",
    "llama/sequence_classification",
    "mamba/causal_lm",
    "qwen2/causal_lm",
]
ENCODERS_WITH_DECODERS = ["bart/sequence_classification", "marian/seq2seq_lm", "pegasus/seq2seq_lm"]
CASES = {
    "mpi": [*ON_MCCL_TOO, *ENCODERS, *DECODERS, *ENCODERS_WITH_DECODERS],
    "mccl": ON_MCCL_TOO,
}


def train(output, ranks, backend, checks):
    run_ranks_successfully(
        "train_families.py", output, 2, checks, *CASES.get(backend, CASES["mpi"]),
        ranks=ranks, backend=backend, log_dir=output / "logs",
    )  # fmt: skip
    return output


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    return train(tmp_path_factory.mktemp("one_process"), 1, "auto", "all")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    return {backend: train(tmp_path_factory.mktemp(backend), 2, backend, "none") for backend in CASES}


@pytest.mark.parametrize("case", CASES["mpi"])
def test_one_process_trains_and_saves(one_process, case):
    assert journal(one_process)[case]["stage"] == "done"


@pytest.mark.parametrize("backend, case", [(backend, case) for backend, cases in CASES.items() for case in cases])
def test_ranks_equal_one_process_with_the_whole_batch(one_process, two_ranks, backend, case):
    difference_of_ranks(one_process, two_ranks[backend], 2, case)
