"""``mindnlp-dp run``: what it refuses, and what it would start."""

import re
import socket
import subprocess
import sys

import pytest

from mindnlp_dp_plugin.job.hardware import usable_cores
from mindnlp_dp_plugin.version import __version__
from tests.harness import TIMEOUT_S
from tests.job.test_environments import (
    ASCEND_JOB,
    MODEL_ARTS,
    PET,
    PYTORCH_JOB,
    SALLOC,
    SKYPILOT,
    SRUN,
    VOLCANO,
)


def refused(runner, *args):
    """The one line with which a command line is refused."""
    outcome = runner.run(*args)
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1, outcome.stderr
    assert not runner.log_dir.exists()
    assert not runner.left_behind()
    return outcome.stderr


@pytest.fixture
def script(runner):
    return runner.script("raise SystemExit('must not run')")


@pytest.mark.parametrize("nproc", ["0", "two"])
def test_a_bad_nproc(runner, script, nproc):
    assert "--nproc" in refused(runner, "--nproc", nproc, script)


def test_no_nproc_and_no_script(runner, script):
    assert "--nproc" in refused(runner, script)
    assert "SCRIPT" in refused(runner, "--nproc", "2")


def test_an_option_of_the_script_before_its_name(runner, script):
    error = refused(runner, "--nproc", "2", "--epochs", "3", script)
    assert "No such option '--epochs'" in error and "Options of the script come after its name." in error


def test_a_missing_script_or_module(runner):
    assert "script 'nowhere.py' does not exist" in refused(runner, "--nproc", "2", "nowhere.py")
    assert "module 'no_such.thing' cannot be found" in refused(runner, "--nproc", "2", "-m", "no_such.thing")


def test_an_unknown_backend(runner, script):
    message = refused(runner, "--nproc", "2", "--backend", "gloo", script)
    assert "gloo" in message and "mccl" in message


def test_a_busy_port(runner, script):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        message = refused(runner, "--nproc", "2", "--master-port", port, script)
    assert f"--master-port {port}" in message and "in use" in message


def test_a_port_that_is_none(runner, script):
    assert "--master-port" in refused(runner, "--nproc", "2", "--master-port", "70000", script)


SEVERAL = {
    "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 9000 --insecure": (
        "on each node, with its own node rank: msrun --worker_num=8 --local_worker_num=4 --master_addr=10.0.0.1 "
        "--master_port=9000 --node_rank=1 --join=True {script} --lr 'a b'"
    ),
    "--nnodes 3 --num-processes 12": (
        "msrun --worker_num=12 --local_worker_num=4 --master_addr=NODE0 --master_port=8118 --node_rank=0 --join=True "
        "{script} --lr 'a b'"
    ),
    "--nnodes 2:3 --resume": (
        "on each node: MINDNLP_DP_RESUME=1 torchrun --nnodes=2:3 --nproc-per-node=4 --max-restarts=0 "
        "--rdzv-backend=c10d --rdzv-endpoint=NODE0:8118 --no-python python {script} --lr 'a b'"
    ),
    "--nnodes 2 --max-restarts 3": (
        "MINDNLP_DP_RESUME=1 torchrun --nnodes=2 --nproc-per-node=4 --max-restarts=3 --rdzv-backend=c10d "
        "--rdzv-endpoint=NODE0:8118 --no-python python {script} --lr 'a b'"
    ),
    "--nnodes 2 --master-addr host0 --backend mpi --peak-tflops 3": (
        "on one of them: mpirun -n 8 --host host0:4,NODE1:4 --bind-to none -x MINDNLP_DP_PEAK_TFLOPS=3.0 "
        "python {script} --lr 'a b'"
    ),
}


@pytest.mark.parametrize("options", SEVERAL)
def test_who_asks_for_several_machines_gets_the_line_that_starts_their_ranks(runner, script, options):
    nproc = () if "--num-processes" in options else ("--nproc", "4")
    message = refused(runner, *nproc, *options.split(), script, "--lr", "a b")
    assert f" Put `import mindnlp_dp_plugin` first in {script}, and run, " in message
    assert message.rstrip().endswith(SEVERAL[options].format(script=script))


# As tests/job/test_environments.py has them; what the line holds, as a shell in the pod reads it.
SYSTEMS = {
    "Slurm (2 nodes)": (SALLOC, "srun --nodes=2 --ntasks-per-node=4 --kill-on-bad-exit=1 python {script}"),
    "srun (4 tasks)": (
        {**SRUN, "SLURM_STEP_TASKS_PER_NODE": "4"},
        "srun --nodes=1 --ntasks-per-node=4 --kill-on-bad-exit=1 python {script}",
    ),
    "PyTorchJob (2 nodes)": (PYTORCH_JOB, "--master_addr=job-master-0 --master_port=23456 --node_rank=1"),
    "Kubeflow (2 nodes)": (PET, "--master_addr=job-node-0-0.job --master_port=29400 --node_rank=1"),
    "AscendJob (2 nodes)": (ASCEND_JOB, "--master_addr=10.2.3.4 --master_port=2222 --node_rank=1"),
    "ModelArts (2 nodes)": (MODEL_ARTS, "--master_addr=modelarts-job-worker-0.modelarts-job --master_port=8118"),
    "Volcano (2 nodes)": (VOLCANO, "--master_addr=job-worker-0.job --master_port=8118 --node_rank=1"),
    "SkyPilot (2 nodes)": (SKYPILOT, "--master_addr=10.0.0.1 --master_port=8118 --node_rank=1"),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_on_several_nodes_of_a_system_the_line_is_ready_for_its_variables(runner, script, system):
    variables, words = SYSTEMS[system]
    runner.environ.update(variables)
    message = refused(runner, "--nproc", "4", script)
    assert message.startswith(f"mindnlp-dp: error: {system}: mindnlp-dp run starts the ranks of one machine.")
    line = re.search("and run, [^:]*: (.*)", message)[1]
    shown = subprocess.run(["sh", "-c", f"echo {line}"], env=runner.environ, capture_output=True, text=True, check=True)
    assert words.format(script=script) in shown.stdout


@pytest.mark.parametrize(
    "options, instead",
    [
        (
            "--standalone --nproc 2",
            "--standalone was removed: mindnlp-dp run starts the ranks of one machine, as many as --nproc says. Leave "
            "it out.",
        ),
        ("--nnodes 1 --nproc 2", "--nnodes was removed"),
        ("--nproc 2 --secret-file key", "--secret-file was removed"),
        ("--nproc 2 --insecure", "--insecure was removed"),
        ("--nproc 2 --bind-address 0.0.0.0", "--bind-address was removed"),
        ("--nproc 2 --trace", "--trace was removed: --profile writes the trace of a few steps, too."),
        ("--num_processes=2", "--num-processes was removed"),
        ("--worker-num 2", "--worker-num was removed"),
    ],
)
def test_an_option_that_is_gone_is_named_with_what_to_give_instead(runner, script, options, instead):
    assert instead in refused(runner, *options.split(), script)


@pytest.mark.parametrize("name", ["MINDNLP_DP_SECRET", "MINDNLP_DP_TRACE"])
def test_a_variable_that_is_gone_is_named(runner, script, name):
    runner.environ[name] = "of earlier versions"
    assert f"{name} was removed, so unset it" in refused(runner, "--nproc", "2", script)


def test_help_shows_what_one_machine_needs(runner):
    shown = runner.run("--help").stdout
    options = re.findall(r"^  (-\S+)", shown, re.MULTILINE)
    assert len(options) <= 17 and "--nproc" in shown and "--nnodes" not in shown


def test_a_command_for_one_node_on_several(runner):
    runner.environ.update(SKYPILOT_NODE_RANK="1", SKYPILOT_NUM_NODES="2", SKYPILOT_NODE_IPS="192.0.2.1\n192.0.2.2")
    for command in (("recipe", "roberta-imdb"), ("bench",)):
        ended = mindnlp_dp(runner, *command, "--nproc", "1")
        said = f"SkyPilot (2 nodes): mindnlp-dp {' '.join(command)} uses a single node. Ask for one."
        assert ended.returncode == 2 and said in ended.stderr, ended.stderr


def test_mpi_that_is_not_installed(runner, script):
    bare = runner.environ["PYTHONPATH"]
    (runner.folder / "no_mpi").mkdir()
    (runner.folder / "no_mpi" / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find_spec = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'mpi4py' else find_spec(name, package)\n"
    )
    runner.environ["PYTHONPATH"] = f"{runner.folder / 'no_mpi'}:{bare}"
    message = refused(runner, "--nproc", "2", "--backend", "mpi", script)
    assert "needs mpi4py" in message and "pip install" in message


def test_a_wrong_log_dir(runner, script):
    (runner.folder / "file").write_text("")
    outcome = runner.run("--nproc", "2", "--log-dir", "file", script)
    assert outcome.returncode == 2
    assert outcome.stderr.count("\n") == 1 and "--log-dir 'file'" in outcome.stderr


def test_unknown_options_and_commands(runner, script):
    assert "--nprok" in refused(runner, "--nprok", "2", script)
    ended = mindnlp_dp(runner, "walk")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "walk" in ended.stderr.lower()


def mindnlp_dp(runner, *words):
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", *words]
    return subprocess.run(command, env=runner.environ, capture_output=True, text=True, timeout=TIMEOUT_S)


def test_without_a_command_it_shows_help_and_it_tells_its_version(runner):
    shown = mindnlp_dp(runner)
    assert shown.returncode == 0 and "doctor" in shown.stdout and shown.stderr == ""
    assert mindnlp_dp(runner, "--version").stdout == f"mindnlp-dp, version {__version__}\n"


@pytest.mark.parametrize("words", [("--nproc-per-node", "2"), ("--nproc_per_node=2",), ("-n", "2")])
def test_options_as_other_launchers_write_them(runner, script, words):
    lines = runner.run(*words, "--backend", "mccl", "--dry_run", script).stdout.splitlines()
    assert [line.rpartition("# ")[2] for line in lines] == ["scheduler", "rank 0", "rank 1"]


def test_as_many_ranks_as_cores(runner, script):
    line = runner.run("--nproc", "auto", "--backend", "mpi", "--dry-run", script).stdout
    assert f" -n {usable_cores()} " in line or usable_cores() == 1


def test_dry_run_of_mpi_prints_one_command_and_starts_nothing(runner, script):
    outcome = runner.run("--nproc", "2", "--backend", "mpi", "--dry-run", script, "--lr", "a b")
    assert outcome.returncode == 0
    (line,) = outcome.stdout.splitlines()
    assert line.endswith(f" -n 2 {sys.executable} -m mindnlp_dp_plugin.runtime.worker {script} --lr 'a b'  # mpirun")
    assert not runner.log_dir.exists()


def test_dry_run_of_a_cluster_prints_a_line_per_process(runner, script):
    args = ("--nproc", "2", "--backend", "hccl", "--master-port", "18999", "--dry-run", script)
    scheduler, *workers = runner.run(*args).stdout.splitlines()
    assert scheduler.endswith(" &  # scheduler") and "MS_ROLE=MS_SCHED" in scheduler
    for rank, line in enumerate(workers):
        assert line.endswith(f" &  # rank {rank}")
        words = f"MS_WORKER_NUM=2 MS_SCHED_PORT=18999 MS_NODE_ID={rank} DEVICE_ID={rank} MINDNLP_DP_BACKEND=hccl"
        assert all(word in line.split() for word in words.split())


def test_more_ranks_than_visible_cards_are_refused_before_any_starts(runner, script):
    runner.environ["ASCEND_RT_VISIBLE_DEVICES"] = "6"
    line = refused(runner, "--nproc", "2", "--backend", "hccl", "--dry-run", script)
    assert "--nproc 2 needs as many Ascend cards, but ASCEND_RT_VISIBLE_DEVICES=6 shows 1" in line


def test_a_number_of_restarts_is_not_negative(runner, script):
    assert "--max-restarts" in refused(runner, "--nproc", "1", "--max-restarts", "-1", script)


@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_no_shell_sees_what_is_in_the_environment_or_the_arguments(runner, backend):
    script = runner.script("print(os.environ['GLOG_v'], sys.argv[1:])")
    evil = "3; touch hacked; $(touch hacked) `touch hacked` '"
    runner.environ["GLOG_v"] = evil
    args = ("--nproc", "2", "--backend", backend, script, evil)
    assert runner.run(*args).stdout == f"{evil} {[evil]}\n"
    for line in runner.run(*args[:-2], "--dry-run", *args[-2:]).stdout.splitlines():
        line = line.replace(" &  # ", "  # ")
        said = subprocess.run(["bash", "-c", f"echo {line}"], cwd=runner.folder, capture_output=True, text=True)
        assert (said.returncode, said.stderr) == (0, "") and evil in said.stdout
    assert not (runner.folder / "hacked").exists()


def test_dry_run_of_one_rank_needs_no_cluster(runner, script):
    (line,) = runner.run("--nproc", "1", "--dry-run", script).stdout.splitlines()
    assert line.endswith(f" {script}  # rank 0") and "MS_ROLE" not in line


def test_the_backend_may_come_from_the_environment(runner, script):
    runner.environ["MINDNLP_DP_BACKEND"] = "mccl"
    assert "MINDNLP_DP_BACKEND=mccl" in runner.run("--nproc", "2", "--dry-run", script).stdout


def test_the_command_line_does_not_load_mindspore(runner):
    code = "import sys, mindnlp_dp_plugin.cli; print([name for name in sys.modules if name.startswith('mind')])"
    ended = subprocess.run([sys.executable, "-c", code], env=runner.environ, capture_output=True, text=True, check=True)
    assert "'mindspore'" not in ended.stdout and "'mindnlp'" not in ended.stdout


def test_more_ranks_than_any_node_holds(runner, script):
    message = refused(runner, "--nproc", "100000000", script)
    assert "100000000 ranks on a node are too many: give at most 1024" in message


def test_a_number_that_is_none(runner, script):
    assert "'--grace': nan is not a finite number" in refused(runner, "--nproc", "1", "--grace", "nan", script)
    ended = mindnlp_dp(runner, "recipe", "roberta-imdb", "--nproc", "1", "--learning-rate", "inf")
    assert ended.returncode == 2 and "--learning-rate" in ended.stderr and "finite" in ended.stderr


def test_an_engine_for_cards_where_there_are_none(runner, script):
    outcome = runner.run("--nproc", "2", "--backend", "hccl", script)
    assert outcome.returncode == 2 and not outcome.log_dir.exists()
    assert "--backend hccl needs an Ascend card, and this machine shows none" in outcome.stderr


def test_a_folder_or_a_module_that_python_cannot_run(runner):
    package = runner.folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('nothing is imported to look')")
    (package / "part.py").write_text("")
    runner.environ["PYTHONPATH"] += f":{runner.folder}"
    assert "'package' is a folder without __main__.py" in refused(runner, "--nproc", "1", "package")
    assert "module 'no_such.part' cannot be found" in refused(runner, "--nproc", "1", "-m", "no_such.part")
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("print('part')")
    (package / "__main__.py").write_text("print('whole')")
    assert runner.run("--nproc", "1", "-m", "package.part").stdout == "part\n"
    assert runner.run("--nproc", "1", "-m", "package").stdout == "whole\n"
    assert runner.run("--nproc", "1", "package").stdout == "whole\n"
    missing = runner.run("--nproc", "1", "-m", "package.missing")
    assert missing.returncode == 1 and "ImportError: No module named package.missing" in missing.stderr


def test_a_setting_that_does_not_exist(runner, script):
    runner.environ["MINDNLP_DP_BUCKET_CAP"] = "4"
    message = refused(runner, "--nproc", "2", script)
    assert "MINDNLP_DP_BUCKET_CAP='4' is not a setting: do you mean MINDNLP_DP_BUCKET_CAP_MB?" in message


def test_without_a_home(runner):
    del runner.environ["HOME"]
    script = runner.script("print('ran')", "ran.py")
    outcome = runner.run("--nproc", "2", "--backend", "mpi", script)
    assert (outcome.returncode, outcome.stdout) == (0, "ran\n"), outcome.stderr


INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys
import mindnlp_dp_plugin.cli

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException as error:
                {reaction}

sys.meta_path.insert(0, Interrupts())
sys.argv = ["mindnlp-dp", {words}]
mindnlp_dp_plugin.cli.main()
"""


@pytest.mark.parametrize("reaction", ["pass", "raise ImportError('what was imported') from error"])
@pytest.mark.parametrize("name", ["click", "charset_normalizer"])
def test_ctrl_c_while_something_is_imported_ends_it_without_a_traceback(runner, script, name, reaction):
    data = runner.folder / "data"
    data.mkdir()
    (data / "train.csv").write_text("text,label\n" + "\n".join(f"text {number},{number % 2}" for number in range(40)))
    words = f"'recipe', 'classification', '--nproc', '1', '--dataset', {str(data)!r}, '--backend', 'mccl'"
    code = INTERRUPTED_WHILE_IMPORTING.format(name=name, reaction=reaction, words=words)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=runner.environ, cwd=runner.folder, capture_output=True, text=True, timeout=100)
    assert ended.returncode == -2, ended.stderr
    assert "Traceback" not in ended.stderr
