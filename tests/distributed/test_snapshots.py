"""Checkpoints in memory: a job that dies goes on from the step before, though it saved nothing on disk."""

import json
import re
import shutil
import sys

import pytest

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import PROGRAMS, run, run_ranks

MAX_STEPS = 12  # 9 batches of each rank, 2 in a step: epochs end within steps, too
BACKENDS = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]


def train(output, backend, faults="", max_restarts=0, every=1):
    (output / "tmp").mkdir(parents=True)
    return run_ranks(
        "snapshots.py", output, MAX_STEPS,
        ranks=2, backend=backend, log_dir=output / "logs", options=("--max-restarts", max_restarts),
        env={"FAULTS": faults, "FAULT_FOLDER": str(output), "MINDNLP_DP_SNAPSHOT_EVERY": str(every),
             "TMPDIR": str(output / "tmp")},
    )  # fmt: skip


def ends(output):
    return [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_and_restarted_it_ends_as_if_it_had_never_been(tmp_path, backend):
    never, again = tmp_path / "never", tmp_path / "again"
    assert train(never, backend, every=0).returncode == 0
    faults = "backward:4:1:SIGKILL:0.01 backward:9:0:exception:0.01"
    finished = train(again, backend, faults, max_restarts=2)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert ends(again) == ends(never)
    assert not list((again / "tmp").glob("tmp*")), "what a killed rank had in TMPDIR"
    saved = re.findall(f"the newest snapshot is now {again}/trainer/checkpoint-([0-9]+)\n", finished.stderr)
    assert len(saved) == 2 and int(saved[0]) >= 3 and int(saved[1]) >= 8
    for number, step in enumerate(saved, 1):
        log = (again / f"logs/restart_{number}/rank_0.log").read_text()
        assert f"Restart {number}: training continues from {again}/trainer/checkpoint-{step}\n" in log
    left = sorted(path.name for path in (again / "trainer").iterdir())
    assert left == sorted(f"checkpoint-{step}" for step in saved)
    for folder in left:
        assert "home" not in json.loads((again / "trainer" / folder / store.RECORD).read_text())


def test_it_needs_a_launcher_that_keeps_them(tmp_path):
    alone = run([sys.executable, PROGRAMS / "snapshots.py", tmp_path, 2], env={"MINDNLP_DP_SNAPSHOT_EVERY": "2"})
    assert alone.returncode == 1
    assert "snapshot_every=2 is for ranks that mindnlp-dp run has started" in alone.stderr


def test_too_little_memory_is_named_before_training(tmp_path):
    small = ["unshare", "--map-root-user", "--mount", "sh", "-ec", 'mount -t tmpfs -o size=1m shm /dev/shm; exec "$@"']
    if shutil.which("unshare") is None or run([*small, "sh", "true"]).returncode:
        pytest.skip("this machine allows no namespaces")
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", "1", "--log-dir", tmp_path / "logs"]
    job = run(
        [*small, "sh", *command, PROGRAMS / "snapshots.py", tmp_path, "2"], env={"MINDNLP_DP_SNAPSHOT_EVERY": "1"}
    )
    assert job.returncode == 1
    assert re.search(r"snapshot_every=1 needs [0-9]+ MB of memory on each node, .* /dev/shm has 1 MB\.", job.stderr)
    assert not (tmp_path / "steps.rank0").exists()


def steps_of(output):
    counted = output / "steps.rank0"
    return int(counted.read_text() or 0) if counted.exists() else 0
