"""Models of many families train on 2 ranks as in one process, from weights that are drawn, and are loaded as saved.

``benchmarks/families.py`` does it with all families and all their heads.
"""

import pytest

from tests.families.outcomes import difference_of_ranks, journal

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

TRAINED = [
    *(("mpi", case) for case in CASES["mpi"]),
    *(pytest.param("mccl", case, marks=pytest.mark.slow) for case in CASES["mccl"]),
]


@pytest.fixture(scope="module")
def one_process(output_of):
    return output_of("train_families.py", 2, "all", *CASES["mpi"])


@pytest.fixture(scope="module")
def two_ranks(output_of):
    return {
        backend: output_of("train_families.py", 2, "none", *CASES[backend], ranks=2, backend=backend)
        for backend in CASES
    }


@pytest.mark.parametrize("case", CASES["mpi"])
def test_one_process_trains_and_saves(one_process, case):
    assert journal(one_process)[case]["stage"] == "done"


@pytest.mark.parametrize("backend, case", TRAINED)
def test_ranks_equal_one_process_with_the_whole_batch(one_process, two_ranks, backend, case):
    difference_of_ranks(one_process, two_ranks[backend], 2, case)
