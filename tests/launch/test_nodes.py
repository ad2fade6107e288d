"""Launchers of several nodes, here all on loopback: they meet, and a job that ends badly on one ends on all."""

import json
import signal
import socket
import time

import psutil
import pytest

from mindnlp_dp_plugin.launch.ports import control_port
from tests.harness import PROGRAMS, REPOSITORY
from tests.launch.conftest import TIMEOUT_S
from tests.launch.pieces import FAILED, PROMPTLY_S, READY, SLEEP, once_all_are_ready, until_exists
from tests.ports import free_port


class Nodes:
    """Starts the same command for each node, as users do."""

    def __init__(self, runner):
        self.port = free_port()
        self._runner = runner

    def start(self, node_rank, *script, num_nodes=2, nproc=1):
        meeting = ("--master-addr", "127.0.0.1", "--master-port", str(self.port))
        place = ("--nnodes", str(num_nodes), "--node-rank", str(node_rank))
        return self._runner.start("--nproc", str(nproc), "--backend", "mccl", *meeting, *place, *script)

    def finish(self, launchers):
        return [self._runner.finish(launcher) for launcher in launchers]


@pytest.fixture
def nodes(runner):
    return Nodes(runner)


def test_a_rank_killed_on_one_node_ends_all_and_what_follows_elsewhere_does_not_hide_it(runner, nodes):
    kill = f"if rank == 1:\n    print('last words', flush=True)\n    {FAILED}    os.kill(os.getpid(), 9)\n"
    follow, ready = until_exists("failed_at"), until_exists("ready_0", "ready_1", "ready_2")
    script = runner.script(READY + ready + kill + follow + "raise ConnectionError('peer is gone')")
    outcomes = nodes.finish([nodes.start(node_rank, script, num_nodes=3) for node_rank in range(3)])
    assert time.time() - outcomes[0].failed_at() < PROMPTLY_S
    assert [outcome.returncode for outcome in outcomes] == [137, 137, 137]
    killed = f"mindnlp-dp: rank 1 on {socket.gethostname()} failed first: killed by SIGKILL (signal 9)"
    lines = [outcome.stderr.splitlines() for outcome in outcomes]
    assert all(words[0].startswith(killed) for words in lines)
    assert "    last words" in lines[1]
    for words in (lines[0], lines[2]):
        assert len(words) == 1 and "node 1 shows more. All ranks here were ended" in words[0]
    assert not runner.left_behind()


def test_after_a_failure_all_nodes_start_again_together(runner, nodes):
    """With real collectives before and after."""
    runner.environ.update(PYTHONPATH=str(REPOSITORY), MINDNLP_DP_CPU_TUNING="0")
    script = runner.script(
        "import mindnlp_dp_plugin as dp\n"
        "start = os.environ['MINDNLP_DP_RESTART']\n"
        "assert dp.all_gather_object((dp.get_rank(), start)) == [(0, start), (1, start)]\n"
        "if rank == 1 and start == '0': os.kill(os.getpid(), 9)\n"
        "if rank == 0 and start == '1': raise OSError('no such device')\n"
        "dp.barrier(); print('trained')"
    )
    outcomes = nodes.finish([nodes.start(node_rank, "--max-restarts", "3", script) for node_rank in range(2)])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], outcomes
    for outcome in outcomes:
        assert "mindnlp-dp: restart 1 of 3 in 1 s; " in outcome.stderr
        assert "mindnlp-dp: restart 2 of 3 in 2 s; " in outcome.stderr
    assert "trained" in outcomes[0].stdout.splitlines()
    assert not runner.left_behind()


def test_an_exception_on_node_0_is_shown_there_and_named_elsewhere(runner, nodes):
    script = runner.script(once_all_are_ready(0, "raise ValueError('no such label')"))
    first, second = nodes.finish([nodes.start(node_rank, script) for node_rank in range(2)])
    assert (first.returncode, second.returncode) == (1, 1)
    assert "ValueError: no such label" in first.stderr.splitlines()
    assert second.stderr.startswith("mindnlp-dp: rank 0 on ") and second.stderr.count("\n") == 1
    assert "ValueError, exit status 1; node 0 shows more" in second.stderr


@pytest.mark.parametrize(
    "signum, exit_code, words",
    [
        (signal.SIGINT, 130, "stopped by SIGINT on node 1 ({name})."),
        (signal.SIGKILL, 1, "node 1 ({name}) has vanished: it closed the connection."),
    ],
)
def test_a_launcher_that_is_stopped_or_killed_takes_the_others_along(runner, nodes, signum, exit_code, words):
    launchers = [nodes.start(node_rank, runner.script(READY + SLEEP)) for node_rank in range(2)]
    for rank in range(2):
        runner.wait_for(f"ready_{rank}")
    launchers[1].send_signal(signum)
    first, _ = nodes.finish(launchers)
    assert first.returncode == exit_code
    assert first.stderr.startswith("mindnlp-dp: " + words.format(name=socket.gethostname()))
    runner.require_nothing_left()


def test_strangers_at_the_door_are_not_let_in(runner, nodes):
    script = runner.script("print('trained')")
    first = nodes.start(0, script)
    address = ("127.0.0.1", control_port(nodes.port))
    for said in (b"GET / HTTP/1.1\r\n\r\n", b'{"first": {}}\n', b"[" * 100_000, b""):
        while True:
            try:
                stranger = socket.create_connection(address)
            except ConnectionRefusedError:
                time.sleep(0.02)
            else:
                break
        with stranger:
            stranger.sendall(said)
    outcomes = nodes.finish([first, nodes.start(1, script)])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], outcomes
    assert outcomes[0].stdout == "trained\n"


def test_nodes_that_were_asked_for_different_things_say_so_before_anything_starts(runner, nodes):
    script = runner.script("open(os.path.join(os.environ['FOLDER'], 'has_run'), 'w').close()")
    outcomes = nodes.finish([nodes.start(0, script), nodes.start(1, script, nproc=2)])
    for outcome in outcomes:
        assert outcome.returncode == 2
        assert "node 1 (" in outcome.stderr and "was started with --nproc 2, node 0 with 1" in outcome.stderr
    assert not (runner.log_dir / "has_run").exists()


def test_a_node_that_never_comes_is_named_after_the_timeout(runner, nodes):
    runner.environ["MINDNLP_DP_TIMEOUT"] = "1"
    script = runner.script(SLEEP)
    (first,) = nodes.finish([nodes.start(0, script, num_nodes=3)])
    assert first.returncode == 2
    assert "after 1 s not here: node 1, node 2." in first.stderr and f"ports {nodes.port} and " in first.stderr
    (second,) = nodes.finish([nodes.start(1, script)])
    assert second.returncode == 2
    assert f"node 0 cannot be reached at port {control_port(nodes.port)} after 1 s" in second.stderr
    assert "127.0.0.1 is each machine's own: give the address of node 0 in the network" in second.stderr


@pytest.mark.parametrize("address, own", [("::1", None), ("127.0.0.1", "0.0.0.0")])
def test_nodes_meet_over_ipv6_and_where_node_0_is_told_to_listen(runner, nodes, address, own):
    place = ("--master-addr", address)
    first = nodes.start(0, *place, *(("--bind-address", own) if own else ()), runner.script("print('trained')"))
    deadline = time.monotonic() + TIMEOUT_S
    while True:  # it listens where no node looks for it
        try:
            socket.create_connection(("127.0.0.9" if own else address, control_port(nodes.port))).close()
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    outcomes = nodes.finish([first, nodes.start(1, *place, runner.script("print('trained')"))])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], outcomes


@pytest.mark.slow
def test_with_and_without_a_shared_disk_hosts_train_together_and_resume_what_all_have(runner, nodes, tmp_path):
    runner.environ.update(PYTHONPATH=str(REPOSITORY), MINDNLP_DP_CPU_TUNING="1")
    disks = [tmp_path / f"disk_{rank}" for rank in range(2)]
    program = str(PROGRAMS / "file_systems.py")
    outcomes = nodes.finish([nodes.start(rank, program, str(disks[rank]), str(tmp_path)) for rank in range(2)])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], [outcome.stderr for outcome in outcomes]
    assert outcomes[1].stdout == "", "rank 0 alone is shown"
    first, second = (json.loads((disk / "ended.json").read_text()) for disk in disks)
    assert first == second
    assert first["local_rank"] == 0
    assert first["whole"]["best"] != first["whole"]["last"], "no other model was loaded in the end"
    assert list(disks[0].glob("whole/*")) and not list(disks[1].glob("whole/*"))
    assert first["shared"] == first["own_on_each_node"] == first["whole"]
    assert "rank 0 on " in first["own"] and "has checkpoint-2 (digest " in first["own"]
    assert "rank 1 on " in first["own"] and "has no checkpoint." in first["own"]
    assert "save_on_each_node=True" in first["own"]
    assert (
        f"several nodes would write to the same output_dir, '{tmp_path / 'from_each'}'" in first["shared_on_each_node"]
    )
    assert not list((tmp_path / "from_each").iterdir())
    assert not runner.left_behind()


def test_a_suspended_launcher_is_not_blamed_for_anothers_failure(runner, nodes):
    script = runner.script(
        f"{READY}if rank == 0:\n    {until_exists('go')}    raise ValueError('no such label')\n{SLEEP}"
    )
    first, second = (nodes.start(node_rank, script) for node_rank in range(2))
    for rank in range(2):
        runner.wait_for(f"ready_{rank}")
    second.send_signal(signal.SIGSTOP)
    (runner.log_dir / "go").touch()
    outcome = runner.finish(first)
    second.send_signal(signal.SIGCONT)
    suspended = runner.finish(second)
    assert outcome.returncode == suspended.returncode == 1
    assert outcome.stderr.splitlines()[0].startswith("mindnlp-dp: rank 0 on "), outcome.stderr
    assert "ValueError: no such label" in outcome.stderr.splitlines()
    assert "ValueError" in suspended.stderr and "does not answer" in suspended.stderr, suspended.stderr
    assert not runner.left_behind()


def test_nodes_prove_that_they_share_a_secret(runner, nodes):
    script = runner.script("print('trained')")
    runner.environ["MINDNLP_DP_SECRET"] = "one secret of this job"
    first = nodes.start(0, script)
    runner.environ["MINDNLP_DP_SECRET"] = "another one, a guess"
    (stranger,) = nodes.finish([nodes.start(1, script)])
    assert stranger.returncode == 2 and "does not know this job's secret" in stranger.stderr
    secret = runner.folder / "secret"
    secret.write_text("one secret of this job\n")
    secret.chmod(0o644)
    (careless,) = nodes.finish([nodes.start(1, "--secret-file", str(secret), script)])
    assert careless.returncode == 2 and "chmod 600" in careless.stderr
    secret.chmod(0o600)
    outcomes = nodes.finish([first, nodes.start(1, "--secret-file", str(secret), script)])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], outcomes


def test_a_node_with_a_secret_trusts_no_node_0_without_one(runner, nodes):
    script = runner.script("print('trained')")
    first = nodes.start(0, script)
    runner.environ["MINDNLP_DP_SECRET"] = "one secret of this job"
    (second,) = nodes.finish([nodes.start(1, script)])
    assert second.returncode == 2 and "node 0 does not know this job's secret" in second.stderr
    del runner.environ["MINDNLP_DP_SECRET"]
    outcomes = nodes.finish([first, nodes.start(1, script)])
    assert [outcome.returncode for outcome in outcomes] == [0, 0], "it has waited for a node that trusts it"


def test_a_job_goes_on_without_a_node_and_takes_it_back_at_the_next_restart(runner, nodes):
    script = runner.script(
        "start, folder = os.environ['MINDNLP_DP_RESTART'], os.environ['FOLDER']\n"
        "world, sizes = os.environ['MS_WORKER_NUM'], os.environ['MINDNLP_DP_WORLD_SIZES']\n"
        "open(f'{folder}/start_{start}_rank_{rank}_of_{world}', 'w').write(sizes)\n"
        "while start != '2':\n"
        "    time.sleep(0.02)\n"
        "    if start == '1' and rank == 1 and os.path.exists(f'{folder}/fail'): raise ValueError('fails')\n"
    )
    arguments = ("--max-restarts", "1", script)
    launchers = [nodes.start(node_rank, *arguments, num_nodes="2:3") for node_rank in range(3)]
    for rank in range(3):
        runner.wait_for(f"start_0_rank_{rank}_of_3")
    launchers[1].kill()
    runner.finish(launchers[1])
    for rank in range(2):
        runner.wait_for(f"start_1_rank_{rank}_of_2")
    launchers[1] = nodes.start(1, *arguments, num_nodes="2:3")
    while not psutil.Process(launchers[1].pid).children():
        time.sleep(0.02)
    time.sleep(1)  # it has begun, and waits for the next start
    (runner.log_dir / "fail").touch()
    outcomes = nodes.finish(launchers)
    assert [outcome.returncode for outcome in outcomes] == [0, 0, 0], outcomes
    for rank in range(3):
        assert (runner.log_dir / f"start_2_rank_{rank}_of_3").read_text() == "2,3"
    assert "node 1 (" in outcomes[0].stderr and "the nodes that are left go on in" in outcomes[0].stderr
    assert not runner.left_behind()


def test_a_job_ends_if_node_0_vanishes_after_a_rank_elsewhere_has_failed(runner, nodes):
    script = runner.script(
        f"{READY}while rank == 0 or not os.path.exists(os.path.join(os.environ['FOLDER'], 'fail')): time.sleep(0.02)\n"
        "raise ValueError('the other side is gone')\n"
    )
    first, second = (nodes.start(node_rank, "--max-restarts", "1", script) for node_rank in range(2))
    for rank in range(2):
        runner.wait_for(f"ready_{rank}")
    first.send_signal(signal.SIGSTOP)
    (runner.log_dir / "fail").touch()
    runner.wait_for("rank_1.error.json")
    time.sleep(2)  # the failure is reported, and not answered
    first.kill()
    runner.finish(first)
    outcome = runner.finish(second)
    assert outcome.returncode == 1
    assert "as seen from here, has vanished" in outcome.stderr and "no restart: a node is gone" in outcome.stderr
    runner.require_nothing_left()
