"""``zero_stage=3``: parameters are whole only in the module that computes, while it trains and behind it, and nothing
else is another.
"""

import numpy as np
import pytest

from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.distributed.jobs import jobs, left_by_all
from tests.distributed.test_families import CASES
from tests.families.outcomes import result
from tests.harness import decorated_functions, run_ranks

pytestmark = pytest.mark.skipif(not are_views(), reason="this MindSpore's tensors cannot be cut")
PROGRAM = "shared_parameters.py"
SHORT = ("written_by_the_script", "a_sentence")  # else each ends with a digest of each parameter
READINGS = ("asnumpy", "deepcopy", "state_dict", "save_pretrained")
OTHERWISE = "mindnlp_dp_plugin.gathered_parameters(model)"
BY_PLACE = (3, "mccl")  # sums in an order that hangs on the place in a message


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def job(request, tmp_path_factory):
    """What every rank has left, the finished launcher, and whether both stages sum in one order."""
    (ranks, backend), output = request.param, tmp_path_factory.mktemp("shared_parameters")
    finished = run_ranks(PROGRAM, output, ranks=ranks, backend=backend, log_dir=output / "logs")
    return left_by_all(output), finished, request.param != BY_PLACE


@pytest.fixture
def outcomes(job):
    return job[0]


@pytest.mark.parametrize("case", decorated_functions(PROGRAM))
def test_both_stages_end_alike(job, case):
    outcomes, _, sums_in_one_order = job
    whole, shared = outcomes[case]
    assert len(set(map(str, whole))) > (0 if case in SHORT else 10)
    if sums_in_one_order:
        assert shared == whole
    else:
        assert list(numbers(shared)) == pytest.approx(list(numbers(whole)), rel=1e-4)


def numbers(outcome):
    """Its numbers, without digests of bytes."""
    for each in outcome:
        if isinstance(each, list):
            yield from numbers(each)
        elif isinstance(each, float):
            yield each


def test_a_failure_leaves_the_config_as_it_was(outcomes):
    assert outcomes["caches_after_a_failure"] is True


@pytest.mark.parametrize("name", [*READINGS, "assigned"])
def test_whatever_reads_a_part_is_told_how_to_read_the_whole(outcomes, name):
    words = outcomes["readings"][name]
    assert words.startswith("zero_stage=3: ") and OTHERWISE in words and "\n" not in words


@pytest.mark.parametrize("name", [*READINGS, "in_silence", "then_saved", "differently"])
def test_so_is_whatever_reads_a_part_behind_the_training(outcomes, name):
    words = outcomes["readings_behind"][name]
    assert words.startswith("zero_stage=3: ") and OTHERWISE in words
    assert words.startswith(READ_IN_SILENCE) == (name in ("in_silence", "then_saved"))
    assert not outcomes["never"]


def test_a_script_that_has_read_a_part_in_silence_does_not_end_well(job):
    _, finished, _ = job
    assert finished.returncode == 1 and READ_IN_SILENCE in finished.stderr


def test_what_cannot_be_shared_out_is_refused_by_name(outcomes):
    refusals = outcomes["refusals"]
    assert refusals["elsewhere"].startswith("zero_stage=3: words.weight was read or changed outside of its module's")
    assert refusals["forward"].startswith("zero_stage=3 replaces forward, but a BertLayer has one of its own")
    assert refusals["elastic"].startswith("zero_stage=3 with elastic_determinism: ")


READ = "zero_stage=3: {} was read or changed outside of its module's forward, where it is sharded over the ranks"
READ_IN_SILENCE = "zero_stage=3: classifier.weight was read or changed outside of its module's forward"
REFUSED = "zero_stage=3: {} is sharded over the ranks, and is not whole here"


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def readings(request, output_of, in_turn):
    """Each way of reading once, or twice."""
    ranks, backend = request.param
    if (ranks, backend) == (2, "mpi"):
        return 17, left_by_all(in_turn("read_elsewhere.py", ranks, backend))
    return 34, left_by_all(output_of("read_elsewhere.py", 34, ranks=ranks, backend=backend))


def test_however_wherever_and_whenever_a_part_is_read_it_is_named_in_that_step(readings):
    num_draws, found = readings
    drawn = found["memory"]
    assert len(drawn) == num_draws and {draw["step"] for draw in drawn} == {0, 1, 2, 3}
    for draw in drawn:
        words = draw["said"]
        assert words.startswith((READ.format(draw["name"]), REFUSED.format(draw["name"]))), draw
        assert OTHERWISE in words and "\n" not in words
        assert draw["after"] == draw["step"] + (draw["place"] == "behind a step"), draw


def test_where_the_machine_does_not_tell_what_was_read_each_loss_is_looked_at(readings):
    _, found = readings
    assert len(found["losses"]) == 4
    for draw in found["losses"]:
        assert draw["said"].startswith("zero_stage=3: a loss is not finite."), draw
        assert draw["after"] == draw["step"] + 1, draw


FAMILIES = ("albert/masked_lm", "gpt2/causal_lm", "t5/seq2seq_lm", "llama/sequence_classification")


@pytest.mark.parametrize(
    "case, trained",
    [
        *((case, FAMILIES) for case in FAMILIES),
        *(pytest.param(case, tuple(CASES["mpi"]), marks=pytest.mark.slow) for case in CASES["mpi"]),
    ],
    ids=lambda value: value if isinstance(value, str) else f"of_{len(value)}",
)
def test_models_of_many_families_train_alike(output_of, case, trained):
    # Where layers compute again, gradients of an encoder's output are added up in another order than without.
    output = output_of("train_families.py", 2, "shared", *trained, ranks=2, backend="mpi")
    again, shared = (result(output, name) for name in (case, f"{case}.zero3"))
    assert np.array_equal(shared["losses"], again["losses"])
    assert np.array_equal(shared["after"], again["after"])
