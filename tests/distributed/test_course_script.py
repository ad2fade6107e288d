"""The course's own script trains on N ranks, under every launcher, with no more than an import added."""

import csv
import hashlib
import re
import sys
from pathlib import Path

import pytest

from mindnlp_dp_plugin.recipes import generate_reviews, save_small_roberta
from tests.harness import PROGRAMS, run
from tests.ports import free_port

NUM_ROWS, BATCH_SIZE, NUM_EPOCHS = 20, 4, 3
MPIRUN = [Path(sys.executable).with_name("mpirun"), "--allow-run-as-root", "--bind-to", "none", "-n", "2"]
# The course's shell exports this; stock MindNLP trains N times alone without it.
EXPORTED = {"MULTI_NPU": "true"}


@pytest.fixture(scope="module")
def local_files(tmp_path_factory):
    """A small RoBERTa and two csv files in the places of roberta-base and IMDB."""
    folder = tmp_path_factory.mktemp("local_files")
    for name, num_reviews in (("train", NUM_ROWS), ("test", 8)):
        reviews = generate_reviews(num_reviews)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *zip(reviews["text"], reviews["label"])])
    save_small_roberta(folder / "model", generate_reviews(200)["text"], num_labels=2)
    return [folder / "model", folder / "train.csv", folder / "test.csv"]


@pytest.fixture(scope="module")
def trained_before():
    """By number of ranks, a digest of the model that an earlier test's launcher and engine led to."""
    return {}


def check_one_training(folder, rank_logs, num_ranks, trained_before):
    """Ranks trained together: each epoch has 1/N of the steps, and rank 0 alone logged and saved.

    Whatever the launcher and the engine, one seed gives one model, to the last bit.
    """
    steps = -(-NUM_ROWS // (BATCH_SIZE * num_ranks))
    checkpoints = sorted(path.name for path in folder.glob("checkpoint-*"))
    assert checkpoints == sorted(f"checkpoint-{steps * epoch}" for epoch in range(1, NUM_EPOCHS + 1))
    assert all((folder / checkpoint / "model.safetensors").exists() for checkpoint in checkpoints)
    assert all("start training" in log for log in rank_logs)
    logged = [len(re.findall(r"'loss'|'train_runtime'", log)) for log in rank_logs]
    bars = [f"/{steps * NUM_EPOCHS} [" in log for log in rank_logs]
    assert logged == [NUM_EPOCHS + 1] + [0] * (num_ranks - 1)
    assert bars == [True] + [False] * (num_ranks - 1)
    last = folder / f"checkpoint-{steps * NUM_EPOCHS}" / "model.safetensors"
    digest = hashlib.sha256(last.read_bytes()).hexdigest()
    assert trained_before.setdefault(num_ranks, digest) == digest


@pytest.mark.parametrize(
    "num_ranks, backend, exported",
    [
        (2, "mpi", EXPORTED),
        pytest.param(3, "mccl", EXPORTED, marks=pytest.mark.slow),
        pytest.param(2, "auto", {}, marks=pytest.mark.slow),
    ],
)
def test_unmodified_under_mindnlp_dp_run(local_files, trained_before, tmp_path, num_ranks, backend, exported):
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", num_ranks, "--backend", backend]
    script = [PROGRAMS / "course_roberta.py", *local_files]
    finished = run([*command, "--log-dir", tmp_path / "logs", *script], env=exported, cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    logs = [(tmp_path / "logs" / f"rank_{rank}.log").read_text() for rank in range(num_ranks)]
    check_one_training(tmp_path, logs, num_ranks, trained_before)
    assert "start training" in finished.stdout and finished.stdout.count("'train_runtime'") == 1


@pytest.mark.parametrize("num_ranks, exported", [(2, EXPORTED), pytest.param(3, {}, marks=pytest.mark.slow)])
def test_with_one_import_under_plain_msrun(local_files, trained_before, tmp_path, num_ranks, exported):
    script = tmp_path / "roberta.py"
    script.write_text("import mindnlp_dp_plugin\n" + (PROGRAMS / "course_roberta.py").read_text())
    msrun = Path(sys.executable).with_name("msrun")
    options = [f"--worker_num={num_ranks}", f"--local_worker_num={num_ranks}", f"--master_port={free_port()}"]
    finished = run([msrun, *options, "--join=True", "--log_dir=logs", script, *local_files], env=exported, cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    logs = [(tmp_path / "logs" / f"worker_{rank}.log").read_text() for rank in range(num_ranks)]
    check_one_training(tmp_path, logs, num_ranks, trained_before)


@pytest.mark.parametrize("failure", ["raise ValueError('no such label')", "sys.exit(3)"])
def test_a_rank_that_fails_under_plain_mpirun_ends_the_job(tmp_path, failure):
    script = tmp_path / "script.py"
    script.write_text(
        "import mindnlp_dp_plugin as dp, sys\ndp.barrier()\n"
        f"if dp.get_rank() == 1:\n    {failure}\ndp.barrier()\nprint('never')\n"
    )
    finished = run([*MPIRUN, sys.executable, script], env={}, cwd=tmp_path)
    assert finished.returncode == (3 if "exit" in failure else 1) and "never" not in finished.stdout
    assert "exit" in failure or "ValueError: no such label" in finished.stderr


CAUGHT = """
import mindnlp_dp_plugin as dp, sys, threading
try:
    sys.exit(2)
except SystemExit as leaving:
    print("caught", leaving.code, leaving)
thread = threading.Thread(target=sys.exit, args=[2])
thread.start()
thread.join()
dp.barrier()
print(dp.get_world_size(), "ranks")
"""


@pytest.fixture(scope="module")
def under_plain_mpirun(tmp_path_factory):
    """What was shown by a script whose arguments are called as the plugin's own programs."""
    folder = tmp_path_factory.mktemp("mpirun")
    script = folder / "script.py"
    script.write_text(CAUGHT)
    places = ["out/mindnlp-dp", "mindnlp_dp_plugin.cli", "elsewhere"]
    return run([*MPIRUN, sys.executable, "-X", "dev", script, *places], env={}, cwd=folder)


def test_a_sys_exit_that_is_caught_fails_no_job_under_plain_mpirun(under_plain_mpirun):
    assert under_plain_mpirun.returncode == 0 and under_plain_mpirun.stdout.count("caught 2 2\n") == 2
    assert "Traceback" not in under_plain_mpirun.stderr


def test_ranks_join_whatever_the_scripts_arguments_are_called(under_plain_mpirun):
    assert under_plain_mpirun.stdout.count("2 ranks\n") == 2, under_plain_mpirun


def test_with_one_import_under_plain_mpirun(local_files, trained_before, tmp_path):
    script = tmp_path / "roberta.py"
    script.write_text("import mindnlp_dp_plugin\n" + (PROGRAMS / "course_roberta.py").read_text())
    to_own_log = ["sh", "-c", 'exec "$@" >rank_$OMPI_COMM_WORLD_RANK.log 2>&1', "sh"]
    finished = run([*MPIRUN, *to_own_log, sys.executable, script, *local_files], env=EXPORTED, cwd=tmp_path)
    logs = [(tmp_path / f"rank_{rank}.log").read_text() for rank in range(2)]
    assert finished.returncode == 0, finished.stderr + "".join(logs)
    check_one_training(tmp_path, logs, 2, trained_before)
