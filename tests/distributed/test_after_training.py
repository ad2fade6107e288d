"""Behind ``train()`` with ``zero_stage=3`` parameters stay shared out, and everything goes on as with stage 2."""

import pytest

from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.distributed.jobs import jobs, left_by_all
from tests.harness import run_ranks

pytestmark = pytest.mark.skipif(not are_views(), reason="this MindSpore's tensors cannot be cut")
CASES = (
    "evaluated_and_predicted",
    "written",
    "written_without_safetensors",
    "written_by_the_script",
    "trained_again_from_a_checkpoint",
    "trained_on_by_another_trainer",
    "trained_on_without_the_stage",
    "adapted",
    "adapted_later",
    "copied",
    "weights_that_were_half",
    "evaluated_in_half_precision",
    "a_sentence",
)
READ = "zero_stage=3: classifier.weight was read or changed outside of its module's forward"


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def job(request, tmp_path_factory):
    """What every rank has left, and the finished launcher."""
    (ranks, backend), output = request.param, tmp_path_factory.mktemp("after_training")
    finished = run_ranks("after_training.py", output, ranks=ranks, backend=backend, log_dir=output / "logs")
    return left_by_all(output), finished


@pytest.fixture
def outcomes(job):
    return job[0]


@pytest.mark.parametrize("case", CASES)
def test_both_stages_lead_to_the_same(outcomes, case):
    whole, shared = outcomes[case]
    assert whole and shared == whole


@pytest.mark.parametrize(
    "name", ["asnumpy", "deepcopy", "state_dict", "save_pretrained", "in_silence", "then_saved", "differently"]
)
def test_whatever_reads_a_part_is_told_how_to_read_the_whole(outcomes, name):
    words = outcomes["readings"][name]
    assert words.startswith("zero_stage=3: ") and "mindnlp_dp_plugin.gathered_parameters(model)" in words
    assert words.startswith(READ) == (name in ("in_silence", "then_saved"))
    assert not outcomes["never"]


def test_a_script_that_has_read_a_part_in_silence_does_not_end_well(job):
    _, finished = job
    assert finished.returncode == 1 and READ in finished.stderr
