"""``zero_stage=3``: parameters are whole only in the module that computes, and nothing else is another."""

import numpy as np
import pytest

from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.distributed.jobs import jobs, left_by_all
from tests.distributed.test_families import CASES
from tests.families.outcomes import result

pytestmark = pytest.mark.skipif(not are_views(), reason="this MindSpore's tensors cannot be cut")
ALIKE = (
    "dropout",
    "mixed_precision",
    "recomputed",
    "clipped",
    "evaluated_with_another_number_of_batches_on_each_rank",
    "evaluated_by_one_rank_alone",
    "the_best_is_loaded",
    "a_rank_whose_batch_has_nothing_to_train_on",
    "nothing_to_train_on_before_the_step",
    "parameters_are_changed_between_steps",
    "sentences_are_written_between_steps",
    "a_loss_reads_gathered_parameters",
)
OTHERWISE = "mindnlp_dp_plugin.gathered_parameters(model)"


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def outcomes(request, output_of):
    """Of rank 0; every rank has the same."""
    ranks, backend = request.param
    output = output_of("shared_parameters.py", ranks=ranks, backend=backend)
    return left_by_all(output)


@pytest.mark.parametrize("case", ALIKE)
def test_both_stages_end_alike(outcomes, case):
    whole, shared = outcomes[case]
    assert len(set(whole)) > 10
    assert shared == whole


def test_a_failure_leaves_the_config_as_it_was(outcomes):
    assert outcomes["caches_after_a_failure"] is True


@pytest.mark.parametrize("name", ["asnumpy", "deepcopy", "state_dict", "save_pretrained", "assigned"])
def test_whatever_reads_a_part_is_told_how_to_read_the_whole(outcomes, name):
    words = outcomes["readings"][name]
    assert words.startswith("zero_stage=3: ") and OTHERWISE in words and "\n" not in words


def test_what_cannot_be_shared_out_is_refused_by_name(outcomes):
    refusals = outcomes["refusals"]
    assert refusals["elsewhere"].startswith("zero_stage=3: words.weight was read or changed outside of its module's")
    assert refusals["forward"].startswith("zero_stage=3 replaces forward, but a BertLayer has one of its own")
    assert refusals["elastic"].startswith("zero_stage=3 with elastic_determinism: ")


READ = "zero_stage=3: {} was read or changed outside of its module's forward, where it is sharded over the ranks"
REFUSED = "zero_stage=3: {} is sharded over the ranks, and is not whole here"


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def readings(request, output_of):
    ranks, backend = request.param
    return left_by_all(output_of("read_elsewhere.py", "34", ranks=ranks, backend=backend))


def test_however_wherever_and_whenever_a_part_is_read_it_is_named_in_that_step(readings):
    drawn = readings["memory"]
    assert len(drawn) == 34 and {draw["step"] for draw in drawn} == {0, 1, 2, 3}
    for draw in drawn:
        words = draw["said"]
        assert words.startswith((READ.format(draw["name"]), REFUSED.format(draw["name"]))), draw
        assert OTHERWISE in words and "\n" not in words
        assert draw["after"] == draw["step"] + (draw["place"] == "behind a step"), draw


def test_where_the_machine_does_not_tell_what_was_read_each_loss_is_looked_at(readings):
    assert len(readings["losses"]) == 4
    for draw in readings["losses"]:
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
