"""With the plugin imported first, others' launchers start ranks that train together."""

import os
import sys
from pathlib import Path

import pytest

from mindnlp_dp_plugin import compat
from mindnlp_dp_plugin.job.environments import VARIABLES
from tests.harness import REPOSITORY, TIMEOUT_S, finish, run, run_ranks, start
from tests.mindnlp05.conftest import PROGRAMS
from tests.ports import free_port

PROGRAM = PROGRAMS / "under_others.py"


def require_together(finished, output):
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    trained = sorted(file.read_text().split() for file in output.glob("process*.txt"))
    assert [rank for rank, _ in trained] == ["0", "1"], "two processes train; msrun's scheduler does not"
    assert len({digest for _, digest in trained}) == 1
    assert [path.name for path in (output / "training").glob("checkpoint-*")] == ["checkpoint-3"]


def test_msrun(tmp_path):
    msrun = Path(sys.executable).with_name("msrun")
    ports = ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    ranks = ["--worker_num=2", "--local_worker_num=2", "--join=True", f"--log_dir={tmp_path / 'logs'}"]
    finished = run([msrun, *ranks, *ports, PROGRAM, tmp_path], cwd=tmp_path)
    finished.stderr += "".join(log.read_text() for log in (tmp_path / "logs").glob("*.log"))
    require_together(finished, tmp_path)


def test_mpirun(tmp_path):
    mpirun = Path(sys.executable).with_name("mpirun")
    allowed = ["--allow-run-as-root", "--oversubscribe", "-n", "2"]
    require_together(run([mpirun, *allowed, sys.executable, PROGRAM, tmp_path], cwd=tmp_path), tmp_path)


def test_torchrun(tmp_path):
    """Its variables; it is not here, for torch is not."""
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank in ("0", "1"):
        environ = {**inherited, **job, "RANK": rank, "LOCAL_RANK": rank, "PYTHONPATH": str(REPOSITORY)}
        processes.append(start([sys.executable, PROGRAM, tmp_path], environ, cwd=tmp_path))
    for finished in [finish(process, TIMEOUT_S) for process in processes]:
        require_together(finished, tmp_path)


def test_one_rank(tmp_path):
    finished = run_ranks(PROGRAM, tmp_path, ranks=1, backend="mpi", log_dir=tmp_path / "logs")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert [path.name for path in (tmp_path / "training").glob("checkpoint-*")] == ["checkpoint-3"]


def test_accelerate_launch_is_refused_by_name(python):
    finished = python("import mindnlp_dp_plugin", env={"ACCELERATE_DYNAMO_BACKEND": "no"})
    assert "`accelerate launch`" in finished.stderr.splitlines()[-1]


def test_mindnlp_imported_first_is_refused_by_name(python):
    if next(patch for patch in compat.PATCHES if patch.name == "generator_made_later").is_needed():
        pytest.skip("MindNLP alone cannot be imported on this MindSpore")
    finished = python("import mindnlp, mindnlp_dp_plugin")
    assert "put `import mindnlp_dp_plugin` before it" in finished.stderr.splitlines()[-1]
