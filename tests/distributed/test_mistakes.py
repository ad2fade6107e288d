"""Mistakes on ranks end the job: one clear line first, non-zero exit, in seconds, nobody left."""

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
    "planted_in_training": "Replicas differ after step 4: bert.pooler.dense.weight on rank(s) 1 is not what",
    "planted_divergence": "bert.pooler.dense.weight on rank(s) 1 is not what rank 0 holds",
}


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
    output = tmp_path_factory.mktemp("mistakes")
    return output, fails("mistakes.py", output, *MISTAKES, backend=request.param)


@pytest.mark.parametrize("mistake", [*MISTAKES][:-1])
def test_the_message_names_what_differs(made_one_after_another, mistake):
    output, _ = made_one_after_another
    told, *others = [(output / f"{mistake}.rank{rank}.txt").read_text() for rank in range(2)]
    assert MISTAKES[mistake] in told and "\n" not in told
    assert others == [told]


def test_the_message_of_one_that_ends_the_job_comes_first(made_one_after_another):
    _, words = made_one_after_another
    line = next(line for line in words.splitlines() if [*MISTAKES.values()][-1] in line)
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
            "average_over='rows' is not known: choose one of auto, ranks, ",
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
