"""Mistakes on ranks, and data that differ, end the job: one clear line first, non-zero exit, nobody left."""

import re

import psutil
import pytest

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from tests.harness import run_ranks

MISTAKES = {
    "other_shape": "layer.0.intermediate.dense.weight is (64, 32) mindspore.float32 on rank 0, but (65, 32)",
    "other_parameter": "extra is absent on rank 0, but (3,) mindspore.float32 on rank 1",
    "other_length": "rank 0 has 64 rows in 4 steps; rank 1 has 63 rows in 4 steps",
    "too_few_rows": "train_dataset has 15 rows in 0 steps",
    "compares_rows_of_a_rank_alone": "A cross entropy compares each row with those of its own rank alone: its labels",
    "planted_in_training": "Replicas differ after step 4: bert.pooler.dense.weight on rank(s) 1 is not what",
}
# Which row is the first to differ is chance: it depends on how each rank orders the set.
DIFFERING = {
    "permuted_in_each_pass": "train_dataset gives its rows in no order that ranks can share: of the columns that tell",
    "streamed_and_shuffled_without_a_seed": "train_dataset gives its rows in no order that ranks can share",
    "evaluated_in_an_order_of_its_own": "The data set to evaluate gives its rows in no order that ranks can share",
    "opened_once": "train_dataset gives its rows in no order .* rank 0 alone read it: dispatch_batches=True",
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
LAST, ITS_END = "planted_divergence", "bert.pooler.dense.weight on rank(s) 1 is not what rank 0 holds"


def fails(program, output, *mistakes, backend="mpi", env=None):
    finished = run_ranks(program, output, *mistakes, ranks=2, backend=backend, log_dir=output / "logs", env=env)
    assert finished.returncode != 0
    assert "NOBODY NOTICED" not in finished.stdout
    left = [p.pid for p in psutil.process_iter(["cmdline"]) if str(output) in " ".join(p.info["cmdline"] or [])]
    assert left == []
    return finished.stderr


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def made_one_after_another(request, tmp_path_factory):
    """The folder where each rank has noted what it was told, and what the job showed, which the last mistake ended."""
    output, names = tmp_path_factory.mktemp("mistakes"), (*DIFFERING, "random_rows", *MISTAKES, LAST)
    # As under srun, mpirun and msrun, each rank hashes strings in its own way, and so orders sets.
    return output, fails("mistakes.py", output, *names, backend=request.param, env={"PYTHONHASHSEED": "random"})


@pytest.mark.parametrize("mistake", [*MISTAKES, *DIFFERING])
def test_the_message_names_what_differs(made_one_after_another, mistake):
    output, _ = made_one_after_another
    told, *others = [(output / f"{mistake}.rank{rank}.txt").read_text() for rank in range(2)]
    assert re.search(DIFFERING.get(mistake) or re.escape(MISTAKES[mistake]), told) and others == [told]
    assert "\n" not in told or mistake == "filtered_rows_from_a_set", "a batch is shown in lines"


def test_rows_that_are_random_by_design_may_differ(made_one_after_another):
    output, _ = made_one_after_another
    assert len(list(output.glob("trained_*"))) == 6


def test_the_message_of_one_that_ends_the_job_comes_first(made_one_after_another):
    _, words = made_one_after_another
    line = next(line for line in words.splitlines() if ITS_END in line)
    assert "Traceback" not in words[: words.index(line)], "the line comes first"


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_the_traceback_of_the_rank_that_raised_comes_first(tmp_path, backend):
    words = fails("mistakes.py", tmp_path, "raises_on_rank_1", backend=backend)
    assert "rank 1" in words.splitlines()[0]
    assert words.index("Traceback") < words.index("LookupError: the user's own mistake")
    assert words.count("Traceback") == 1


@pytest.mark.parametrize(
    "variable, value, named",
    [
        ("MINDNLP_DP_BUCKET_CAP_MB", "much", "MINDNLP_DP_BUCKET_CAP_MB='much' is not understood: give a number"),
        ("MINDNLP_DP_BUCKET_CAP_MB", "-1", "bucket_cap_mb=-1.0 is not a size in MB"),
        (
            "MINDNLP_DP_AVERAGE_OVER",
            "rows",
            "average_over='rows' is not known: choose one of auto, ranks.",
        ),
        ("MINDNLP_DP_TIMEOUT", "0", "timeout=0.0 is not a time: give the seconds a collective may wait"),
        ("MINDNLP_DP_CPU_TUNING", "perhaps", "MINDNLP_DP_CPU_TUNING='perhaps' is not understood: give one of 1, true"),
        (
            "MINDNLP_DP_CHECK_REPLICAS_EVERY",
            "2.5",
            "_CHECK_REPLICAS_EVERY='2.5' is not understood: give a whole number",
        ),
        ("MINDNLP_DP_CHECK_REPLICAS_EVERY", "-1", "check_replicas_every=-1 is not a number of optimizer steps"),
    ],
)
def test_a_wrong_setting_is_named(variable, value, named):
    with pytest.raises(DataParallelError, match=re.escape(named)):
        DataParallelConfig.from_env({variable: value})


def test_a_wrong_setting_is_named_before_anything_starts(tmp_path):
    words = fails("mistakes.py", tmp_path, "raises_on_rank_1", env={"MINDNLP_DP_BUCKET_CAP_MB": "much"})
    assert "MINDNLP_DP_BUCKET_CAP_MB='much' is not understood: give a number" in words and "Traceback" not in words
