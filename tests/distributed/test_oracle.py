"""N ranks train as one process with N times the batch would, and as each other to the last bit."""

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.programs.scenarios import RUN, SCENARIOS

NUM_POLLED = 12  # numbers that ranks exchange before each optimizer step; three are of each group of parameters
STAGES = (1, 2, 3)


def shared_out(names, *stages):
    return tuple(f"{name}.zero{stage}" for stage in stages for name in names)


# Of the scenarios, those that `make test` also trains with states shared out: with stage 2 each that an optimizer or
# its groups could change, with 1 and 3 each that could change how whole gradients or shared parameters come and go.
STATES = ("bert_adamw", "momentum", "lora")
TRAVELS = ("accumulation_with_tail", "used_by_one_rank", "tied_weights", "float32_masters", "half_precision_weights")
STEPS = ("adam", "groups_and_schedule", "epoch_shorter_than_accumulation")
SHARDED = (
    *shared_out((*STATES, "accumulation_with_tail", "float32_masters"), 1),
    *shared_out((*STATES, *TRAVELS, *STEPS, "frozen_embeddings"), 2),
    *shared_out((*STATES, *TRAVELS, "frozen_embeddings"), 3),
)
# What the engine could change: the numbers and sizes of collectives, their dtypes, and who has what to send.
BY_ENGINE = [
    *("bert_adamw", "momentum", "accumulation_with_tail", "used_by_one_rank", "tied_weights", "lora", "many_buckets"),
    *("unequal_batches", "grouped_by_length", "float16"),
]


@dataclass(frozen=True)
class Job:
    """Ranks that train scenarios, and some of them with states shared out, too."""

    ranks: int
    backend: str
    names: tuple
    sharded: tuple

    def __str__(self):
        return f"{self.ranks}-{self.backend}" + ("-some" if len(self.names) < len(SCENARIOS) else "")


ON_MPI = Job(2, "mpi", tuple(SCENARIOS), SHARDED)
ON_MCCL = Job(2, "mccl", tuple(BY_ENGINE), shared_out((*STATES, "used_by_one_rank"), *STAGES))
SLOW = [
    Job(2, "mccl", ON_MPI.names, shared_out((*STATES, *TRAVELS, *STEPS, "frozen_embeddings"), *STAGES)),
    *(Job(3, backend, ON_MPI.names, shared_out(SCENARIOS, *STAGES)) for backend in ("mpi", "mccl")),
]
JOBS = [ON_MPI, ON_MCCL, *(pytest.param(job, marks=pytest.mark.slow) for job in SLOW)]
for_each_job = pytest.mark.parametrize("job", JOBS, indirect=True, ids=str, scope="module")
TRAININGS = [
    *((job, name) for job in (ON_MPI, ON_MCCL) for name in job.names),
    *(pytest.param(job, name, marks=pytest.mark.slow) for job in SLOW for name in job.names),
]


@pytest.fixture(scope="module")
def one_process(output_of):
    """What one process makes of all scenarios, with the batch of a number of ranks: a function of that number."""
    return lambda num_ranks: output_of("train_scenarios.py", num_ranks, *SCENARIOS, timeout=900)


@pytest.fixture(scope="module")
def job(request, output_of):
    """The scenarios of a job on ranks, and with states shared out: (number of ranks, names of the latter, results)."""
    asked = request.param
    # Without the extra [cpu], MindSpore's Adam rounds the ends of a slice otherwise.
    shared = asked.sharded if are_views() and find_spec("numba") else ()
    output = output_of(
        "train_scenarios.py", asked.ranks, *asked.names, *shared, ranks=asked.ranks, backend=asked.backend
    )
    return asked.ranks, shared, output


@pytest.fixture(scope="module")
def runs(job, one_process):
    """Number of ranks, results of one process, results of the ranks."""
    ranks, _, output = job
    return ranks, one_process(ranks), output


def assert_equal_within_rounding(result, expected, tolerances, num_roundings=1):
    assert len(result["digests"]) == len(expected["digests"]) > 0
    assert len(set(result["digests"])) == len(result["digests"]), "parameters stood still"
    largest = np.abs(expected["gradients"]).max(axis=1, keepdims=True)
    allowed = num_roundings * tolerances.gradients * largest
    assert np.all(np.abs(result["gradients"] - expected["gradients"]) <= allowed)
    np.testing.assert_allclose(result["losses"], expected["losses"], rtol=0, atol=tolerances.losses)
    np.testing.assert_allclose(result["parameters"], expected["parameters"], rtol=0, atol=tolerances.parameters)


@pytest.mark.parametrize("job, name", TRAININGS, indirect=["job"], ids=str, scope="module")
def test_ranks_equal_one_process_with_the_whole_batch(runs, name):
    num_ranks, reference, output = runs
    expected = np.load(reference / f"{name}.rank0.npz")
    results = [np.load(output / f"{name}.rank{rank}.npz") for rank in range(num_ranks)]

    for result in results[1:]:
        np.testing.assert_array_equal(result["digests"], results[0]["digests"])
        np.testing.assert_array_equal(result["gradients"], results[0]["gradients"])
        np.testing.assert_array_equal(result["losses"], results[0]["losses"])
        assert result["train_loss"] == results[0]["train_loss"]

    assert_equal_within_rounding(results[0], expected, SCENARIOS[name].tolerances)


@for_each_job
def test_rows_grouped_by_length_are_read_once_an_epoch(runs):
    num_ranks, reference, output = runs
    scenario = SCENARIOS["grouped_by_length"]
    alone = np.load(reference / "grouped_by_length.rank0.npz")
    of_ranks = [np.load(output / f"grouped_by_length.rank{rank}.npz") for rank in range(num_ranks)]

    def steps(name):
        return np.hstack([result[name].reshape(scenario.num_steps, -1) for result in of_ranks])

    expected = alone["rows"].reshape(scenario.num_steps, -1)
    np.testing.assert_array_equal(np.sort(steps("rows")), np.sort(expected))
    first, second = np.split(steps("rows"), 2)
    np.testing.assert_array_equal(np.sort(first, axis=None), np.arange(first.size))
    np.testing.assert_array_equal(np.sort(second, axis=None), np.arange(second.size))
    assert not np.array_equal(np.sort(first), np.sort(second)), "the second epoch is grouped otherwise"
    lengths = steps("lengths")
    assert np.ptp(lengths, axis=1).mean() < 0.75 * np.ptp(lengths)


@for_each_job
def test_adapters_alone_travel(runs):
    num_ranks, _, output = runs
    for rank in range(num_ranks):
        result = np.load(output / f"lora.rank{rank}.npz")
        num_steps, num_trained = result["gradients"].shape
        # A step also sums whether there are new parameters, who is to stop, what a batch counts, how long its rows are
        # and what groups are stepped with, and MCCL's barrier sums a number.
        assert result["num_bytes"] - num_steps * (num_trained + NUM_POLLED) * 4 in (0, 4)
        assert num_trained < result["parameters"].size / 10


@pytest.fixture(scope="module")
def sharded_runs(job):
    """Names, number of ranks, and the results of the ranks."""
    ranks, names, output = job
    if not names:
        pytest.skip("this MindSpore's tensors, or its Adam, do not allow states to be shared out to the last bit")
    return names, ranks, output


@for_each_job
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_shared_out_changes_no_bit(request, sharded_runs, stage):
    names, num_ranks, output = sharded_runs
    sums_by_place = stage == 3 and "3-mccl" in request.node.name  # by the place in a message
    of_stage = [name for name in names if name.endswith(f".zero{stage}")]
    assert len(of_stage) >= len(STATES)
    for name, rank in product(of_stage, range(num_ranks)):
        expected = np.load(output / f"{name.partition('.')[0]}.rank{rank}.npz")
        result = np.load(output / f"{name}.rank{rank}.npz")
        if sums_by_place:
            of_rank0 = np.load(output / f"{name}.rank0.npz")
            np.testing.assert_array_equal(result["digests"], of_rank0["digests"], err_msg=f"{name}, rank {rank}")
            np.testing.assert_allclose(result["parameters"], expected["parameters"], rtol=0, atol=1e-4, err_msg=name)
            continue
        for what in ("digests", "losses", "parameters", *(["gradients"] if stage == 1 else [])):
            np.testing.assert_array_equal(result[what], expected[what], err_msg=f"{name}, rank {rank}, {what}")


@for_each_job
@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_keeps_its_part_of_the_states(sharded_runs, stage):
    _, num_ranks, sharded = sharded_runs
    for name, num_states in zip(STATES, (2, 1, 2), strict=True):
        results = [np.load(sharded / f"{name}.zero{stage}.rank{rank}.npz") for rank in range(num_ranks)]
        num_trained = np.load(sharded / f"{name}.zero1.rank0.npz")["gradients"].shape[1]
        assert sum(result["state_bytes"] for result in results) == 4 * num_states * num_trained
        num_cut = 3 if stage == 3 else 1  # both layers and the head, each by itself
        most = max(1.02 * num_trained / num_ranks, num_trained / num_ranks + num_cut * RUN / 2)  # between runs
        assert max(result["state_bytes"] for result in results) <= 4 * num_states * most
