"""MindSpore's own loops and collectives on ranks: the right values over every engine, or one line that says why not."""

import numpy as np
import pytest

from tests.harness import run_ranks, run_ranks_successfully

LOOPS = ("loop_in_pynative", "loop_in_graph", "model_train_in_pynative", "model_train_in_graph")
FUNCTIONS = ("all_reduce_of_the_lecture", "other_functions_of_comm_func", "functions_of_mint")
REFUSED_OVER = {
    "mpi": ("refused_reducers",),
    "mccl": ("refused_comm_func", "refused_reducers", "refused_reducers_in_graphs"),
}
BROADCAST_OVER = {"mpi": ("broadcast_reducers",), "mccl": ("broadcast_reducers", "broadcast_reducers_in_graphs")}
LOOPS_OVER = {"mpi": LOOPS[:3], "mccl": LOOPS}
# One job of each engine. What draws weights without a seed stands before what sets one; and first of all what sums by
# functions, as the first sums of a process are looked at.
OVER = {
    "mpi": ("rank_0_steps_alone", *REFUSED_OVER["mpi"], *BROADCAST_OVER["mpi"], *FUNCTIONS, *LOOPS_OVER["mpi"]),
    "mccl": (*REFUSED_OVER["mccl"], *BROADCAST_OVER["mccl"], *FUNCTIONS, *LOOPS, "operator", "reducer_in_a_graph"),
}
OVER = {backend: (*snippets, "saved_into_one_file") for backend, snippets in OVER.items()}
BACKENDS = ("mpi", "mccl")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The folder of each engine's job, and what its launcher said; MCCL is taken because the script needs it."""
    found = {}
    for backend, asked in (("mpi", "mpi"), ("mccl", "auto")):
        folder = tmp_path_factory.mktemp(backend)
        job = dict(ranks=2, backend=asked, log_dir=folder / "logs")
        found[backend] = folder, run_ranks_successfully("mindspore_loops.py", folder, "0", *OVER[backend], **job).stderr
    return found


@pytest.fixture
def values_of(jobs):
    def values(backend, name):
        return [dict(np.load(jobs[backend][0] / f"{name}-{rank}.npz")) for rank in (0, 1)]

    return values


def test_auto_takes_the_engine_that_the_script_needs(jobs):
    assert "uses mindspore.nn.DistributedGradReducer: --backend mccl" in jobs["mccl"][1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_lectures_all_reduce_gives_what_the_lecture_shows(values_of, backend):
    for found in values_of(backend, "all_reduce_of_the_lecture"):
        assert str(found["printed"]) == "[[2. 2. 2. 2. 2. 2. 2. 2.]\n [2. 2. 2. 2. 2. 2. 2. 2.]]"
        assert (found["mean"] == 1.5).all() and found["mean"].shape == (2, 8)
        assert found["total"].tolist() == [3, 5]
        assert found["pending"].tolist() == [2, 4]
        assert found["largest"].tolist() == [1, 0]
        assert found["counts"].tolist() == [3] and found["counts"].dtype == np.int64
        assert found["halves"].tolist() == [1] and found["halves"].dtype == np.float16


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_functions_of_comm_func(values_of, backend):
    for rank, found in enumerate(values_of(backend, "other_functions_of_comm_func")):
        assert found["gathered"].tolist() == [0, 10, 1, 11]
        assert found["scattered"].tolist() == [[3], [5]][rank]
        assert found["sent"].tolist() == [1, 11]
        assert rank or found["reduced"].tolist() == [1, 21]


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_mint(values_of, backend):
    for rank, found in enumerate(values_of(backend, "functions_of_mint")):
        assert found["rank"].tolist() == [rank, 2]
        assert found["total"].tolist() == [3, 5]
        assert found["mean"].tolist() == [1.5, 2.5]
        assert found["sent"].tolist() == [1, 11]
        assert found["parts"].tolist() == [[0, 10], [1, 11]]
        assert found["whole"].tolist() == [0, 1]
        assert found["objects"].tolist() == [0, 1]
        assert found["dealt"].tolist() == [5 + rank]


@pytest.mark.parametrize(("backend", "loop"), [(backend, loop) for backend in BACKENDS for loop in LOOPS_OVER[backend]])
def test_a_loop_trains_as_one_process_with_the_rows_of_all(values_of, output_of, backend, loop):
    alone = dict(np.load(output_of("mindspore_loops.py", "2", *LOOPS, ranks=1) / f"{loop}-alone.npz"))
    one, other = values_of(backend, loop)
    assert alone and set(one) == set(alone)
    for name, expected in alone.items():
        assert (one[name] == other[name]).all(), name
        np.testing.assert_allclose(one[name], expected, rtol=0, atol=2e-6, err_msg=name)


def test_an_operator_sums_over_mccl(values_of):
    assert all(found["total"].tolist() == [3, 5] for found in values_of("mccl", "operator"))


def test_a_reducer_in_a_graph_counts_as_an_average_over_mccl(values_of):
    one, other = values_of("mccl", "reducer_in_a_graph")
    assert all((one[name] == other[name]).all() for name in one)


REFUSED = "DataParallelError: Ranks hold different models and step on one averaged gradient: "
WAYS_OUT = ("mindspore.set_seed(1)", "mindspore.set_auto_parallel_context(parameter_broadcast=True)")


def assert_refused(ways):
    for way, said in ways.items():
        assert str(said).startswith(f"{REFUSED}dense_relu_sequential.0.weight on rank 1"), (way, said)
        assert not [words for words in WAYS_OUT if words not in str(said)]


@pytest.mark.parametrize(
    ("backend", "snippet"), [(backend, snippet) for backend in BACKENDS for snippet in REFUSED_OVER[backend]]
)
def test_ranks_that_begin_with_different_models_are_refused(values_of, backend, snippet):
    for of_rank in values_of(backend, snippet):
        assert_refused(of_rank)


@pytest.mark.parametrize(
    ("backend", "snippet"),
    [
        ("mpi", "refused_mint"),
        pytest.param("mpi", "refused_comm_func", marks=pytest.mark.slow),
        pytest.param("mccl", "refused_mint", marks=pytest.mark.slow),
    ],
)
def test_the_first_sums_of_a_process_show_different_models(output_of, backend, snippet):
    output = output_of("mindspore_loops.py", "0", snippet, ranks=2, backend=backend)
    for rank in (0, 1):
        assert_refused(np.load(output / f"{snippet}-{rank}.npz"))


@pytest.mark.parametrize(
    ("backend", "snippet"), [(backend, snippet) for backend in BACKENDS for snippet in BROADCAST_OVER[backend]]
)
def test_ranks_begin_with_what_rank_0_has_if_asked(values_of, backend, snippet):
    one, other = values_of(backend, snippet)
    assert len(one) >= 8 and set(one) == set(other)
    assert not [name for name in one if not np.array_equal(one[name], other[name])]


def test_a_rank_may_step_alone_and_send_what_it_has(values_of):
    one, other = values_of("mpi", "rank_0_steps_alone")
    assert one and not [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_ranks_may_save_into_one_file(jobs, values_of, backend):
    one, other = values_of(backend, "saved_into_one_file")
    assert one and not [name for name in one if not np.array_equal(one[name], other[name])]
    assert [file.name for file in jobs[backend][0].glob("saved.*")] == ["saved.ckpt"]


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_the_same_rows_are_told_at_the_first_step_and_ranks_that_part_at_the_end(tmp_path, backend):
    job = dict(ranks=2, backend=backend, log_dir=tmp_path / "logs")
    finished = run_ranks("mindspore_loops.py", tmp_path, "0", "same_rows_and_other_rates", **job)
    shown = finished.stdout + finished.stderr
    assert finished.returncode == 1, shown
    assert shown.count("All ranks have computed the same gradients: they read the same rows") == 1, shown
    assert "DataParallelError: Ranks have trained one model together, and end with different parameters." in shown


NOT_THERE = "DataParallelError: mindspore.communication.comm_func.send does not exist on a CPU"


@pytest.mark.parametrize(
    ("backend", "snippet", "lines"),
    [
        (
            "mpi",
            "what_mpi_cannot_do",
            [
                "model_train_in_graph: DataParallelError: mindspore.nn.TrainOneStepCell in a graph needs",
                "reducer_in_a_graph: DataParallelError: mindspore.nn.DistributedGradReducer in a graph needs",
                "operator: DataParallelError: mindspore.ops.AllReduce needs MindSpore's own cluster, which MPI does "
                "not have",
                NOT_THERE,
            ],
        ),
        pytest.param("mccl", "what_is_not_there", [NOT_THERE], marks=pytest.mark.slow),
    ],
)
def test_what_an_engine_cannot_do_is_refused_in_one_line(tmp_path, backend, snippet, lines):
    finished = run_ranks(
        "mindspore_loops.py", tmp_path, "0", snippet, ranks=2, backend=backend, log_dir=tmp_path / "logs"
    )
    shown = finished.stdout + finished.stderr
    assert finished.returncode == 1, shown
    assert not [line for line in lines if line not in shown] and "C++ Call Stack" not in shown, shown
    assert shown.count("--backend mccl") >= len(lines) - 1
