"""Every engine keeps the contract of ``Collective``: the same checks, on 2 and 3 real ranks."""

import json
import shlex
import subprocess
import sys

import pytest

from tests.harness import PROGRAMS, decorated_functions, run

ON_MACHINES_OF_THEIR_OWN = ("unshare", "--map-root-user", "--uts")

PROGRAM = "collectives_contract.py"


ENGINES = [
    pytest.param((1, "auto"), marks=pytest.mark.slow),
    (2, "mpi"),
    pytest.param((3, "mpi"), marks=pytest.mark.slow),
    (2, "mccl"),
    pytest.param((3, "mccl"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("check", decorated_functions(PROGRAM))
def test_contract(engine_outcomes, engine, check):
    ranks, backend = engine
    if ranks == 1 and check in ("broadcast_object_gives_all_the_same", "mindspore_communication_answers"):
        pytest.skip("asks for a rank 1, or for MindSpore's cluster")
    assert [outcome["contract"][check] for outcome in engine_outcomes(ranks, backend)] == [None] * ranks


def test_where_ranks_have_no_memory_to_share_mpi_sums_and_says_so(tmp_path):
    limit = 30_000  # KB of a file, one of memory too; an engine's own are smaller
    command = shlex.join([sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", "2", "--backend", "mpi"])
    command += f" --log-dir {tmp_path / 'logs'} {PROGRAMS / 'nothing_to_share.py'} {tmp_path}"
    finished = run(["bash", "-c", f"ulimit -f {limit}; exec {command}"], cwd=tmp_path)
    assert [(tmp_path / f"rank{rank}").read_text() for rank in range(2)] == [f"False {[3.0] * 5}"] * 2
    said = finished.stdout + finished.stderr
    assert said.count("Ranks cannot reach each other's memory (rank 0: [Errno 27] File too large)") == 1, said


@pytest.mark.parametrize("machines", ["a,b,a", "a,a,b"])
def test_on_several_machines_one_rank_of_each_sums_with_the_others(machines, tmp_path):
    if subprocess.run([*ON_MACHINES_OF_THEIR_OWN, "true"], capture_output=True).returncode:
        pytest.skip("this system lets no user name a machine of their own")
    mpirun = ["mpirun", "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", "3"]
    program = [sys.executable, PROGRAMS / "on_machines.py", machines, tmp_path]
    finished = run([*ON_MACHINES_OF_THEIR_OWN, *mpirun, *program], cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    outcomes = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(3)]
    for outcome in outcomes:
        assert len(outcome["checks"]) > 6 and set(outcome["checks"].values()) == {None}, outcome["checks"]
    alone = 1 if machines == "a,b,a" else 2
    assert [outcome["is_shared"] for outcome in outcomes] == [rank != alone for rank in range(3)]
