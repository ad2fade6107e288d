"""A script under the runner sees what it would see under ``python script.py``."""

import os

import pytest

SHOW = "print(__name__, sys.argv, sys.path[0])"


def test_a_script_sees_its_own_name_arguments_and_folder(runner):
    script = runner.script(SHOW)
    outcome = runner.run("--nproc", "1", script, "--help", "-x", "--nproc", "7", "--", "-m")
    arguments = [script, "--help", "-x", "--nproc", "7", "--", "-m"]
    assert outcome.stdout == f"__main__ {arguments} {runner.folder}\n"


@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_arguments_reach_the_script_byte_for_byte(runner, backend):
    arguments = ["--sep", ":", "-n", "1", "touch", "made", "", " ", "-m", "\udcff", "a\nb"]
    script = runner.script("open(f'seen_{rank}', 'w').write(repr(sys.argv[1:]))")
    assert runner.run("--nproc", "2", "--backend", backend, script, *arguments).returncode == 0
    assert [(runner.folder / f"seen_{rank}").read_text() for rank in range(2)] == [repr(arguments)] * 2
    assert not (runner.folder / "made").exists()


@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_ranks_find_torchruns_variables_and_one_hash_seed(runner, backend):
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "PYTHONHASHSEED"]
    script = runner.script(f"print(*(os.environ[name] for name in {names}), 0 < int(os.environ['MASTER_PORT']))")
    outcome = runner.run("--nproc", "2", "--backend", backend, script)
    assert [outcome.log(rank) for rank in range(2)] == [f"{rank} 2 {rank} 2 127.0.0.1 0 True\n" for rank in range(2)]
    runner.environ["PYTHONHASHSEED"] = "random"
    assert " random " in runner.run("--nproc", "1", script).stdout


def test_a_module_sees_its_own_name_arguments_and_the_current_folder(runner):
    script = runner.script(SHOW, "some_module.py")
    outcome = runner.run("--nproc", "1", "-m", "some_module", "-m", "x")
    assert outcome.stdout == f"__main__ {[script, '-m', 'x']} {runner.folder}\n"


def test_classes_of_the_script_can_be_pickled_and_child_processes_spawned(runner):
    body = """
        import multiprocessing, pickle
        class Row: pass
        def double(number): return 2 * number
        if __name__ == "__main__":
            assert type(pickle.loads(pickle.dumps(Row()))) is Row
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
    """
    assert runner.run("--nproc", "1", runner.script(body)).stdout == "[2, 4]\n"


def test_a_syntax_error_is_reported_without_frames_of_the_runner(runner):
    outcome = runner.run("--nproc", "1", runner.script("print('"))
    assert outcome.returncode == 1
    assert "SyntaxError" in outcome.stderr and "worker.py" not in outcome.stderr and "runpy" not in outcome.stderr


@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_each_rank_is_pinned_to_its_share_of_the_cores(runner, backend):
    del runner.environ["MINDNLP_DP_CPU_TUNING"]
    script = runner.script("print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    outcome = runner.run("--nproc", "2", "--backend", backend, script)
    logs = [outcome.log(rank).strip() for rank in range(2)]
    cores = [eval(log.rpartition(" ")[0]) for log in logs]
    if len(os.sched_getaffinity(0)) >= 2:
        assert not set(cores[0]) & set(cores[1])
        assert set(cores[0] + cores[1]) == os.sched_getaffinity(0)
    assert [log.rpartition(" ")[2] for log in logs] == [str(len(mine)) for mine in cores]


def test_what_the_user_set_is_kept(runner):
    runner.environ["OMP_NUM_THREADS"] = "5"
    script = runner.script("print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    outcome = runner.run("--nproc", "2", "--backend", "mpi", script)
    assert outcome.stdout == f"{sorted(os.sched_getaffinity(0))} 5\n"


@pytest.mark.parametrize(
    "backend, end, status, words",
    [
        ("mpi", "pass", 0, ""),
        ("mccl", "sys.exit(3)", 3, ""),
        ("mpi", "sys.exit('the child is done')", 1, "the child is done"),
        ("mpi", "raise ValueError('of the child')", 1, "ValueError: of the child"),
        ("mccl", "raise ValueError('of the child')", 1, "ValueError: of the child"),
    ],
)
def test_a_forked_child_ends_by_itself_and_the_rank_goes_on(runner, backend, end, status, words):
    script = runner.script(
        f"if os.fork() == 0:\n    {end}\nelse:\n    _, status = os.wait()\n    time.sleep(0.5)\n"
        "    print('the child ended with', os.waitstatus_to_exitcode(status))\n"
    )
    outcome = runner.run("--nproc", "2", "--backend", backend, script)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.count(f"the child ended with {status}\n") == 1
    assert outcome.log(0).splitlines().count(words) == bool(words)
    assert ("Traceback" in outcome.log(0)) == end.startswith("raise")
