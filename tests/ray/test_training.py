"""Workers of Ray train what ranks of ``mindnlp-dp run`` train, to the last bit, whatever happens to them on the way."""

import json
import os
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray.train", reason="Ray is not installed; `make ray` runs these tests")

import ray
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
from ray.train import Checkpoint, ControllerError, WorkerGroupError

from mindnlp_dp_plugin import DataParallelConfig
from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.launch.ports import free_port
from mindnlp_dp_plugin.ray import MindNLPConfig
from tests.ray.functions import own_loop, train
from tests.ray.runs import beginnings, fit_while, sha256_of, trainer

pytestmark = pytest.mark.slow
PROMPTLY_S = 40  # ten times what it takes on an idle machine


def since_struck(output):
    return time.time() - json.loads((output / "struck").read_text())["at"]


def test_the_bits_and_the_reports(cluster, undisturbed, tmp_path):
    result = trainer(train, tmp_path).fit()
    assert sha256_of(tmp_path) == undisturbed
    assert {"loss", "eval_loss", "learning_rate", "epoch", "samples_per_second"} <= set(result.metrics)
    assert (result.metrics["step"], len(result.best_checkpoints)) == (9, 3)
    assert isinstance(result.checkpoint, Checkpoint)
    kept = Path(result.checkpoint.path)
    assert store.problem_of(kept) is None
    assert (kept / "model.safetensors").read_bytes() == (
        tmp_path / "trainer" / "checkpoint-9" / "model.safetensors"
    ).read_bytes()
    # The same run, started once more under its name, goes on from what Ray has kept: nothing but the last step.
    trainer(train, tmp_path).fit()
    assert beginnings(tmp_path) == [0, 9] and sha256_of(tmp_path) == undisturbed


@pytest.mark.parametrize("strike", [(1, 7, "SIGKILL"), (0, 7, "raise"), (1, 4, "SIGTERM"), (0, 7, "leave no trace")])
def test_after_a_failure_in_the_middle_of_an_epoch_it_goes_on(cluster, undisturbed, tmp_path, strike):
    home = str(tmp_path / "trainer")
    result = trainer(train, tmp_path, max_failures=1, strike=strike, home=home).fit()
    first, second = beginnings(tmp_path)
    # By a signal it ends with a checkpoint; after another end Ray may not have heard of checkpoint-6, which is there.
    expected = {"SIGTERM": (5, 6, 7), "leave no trace": (3, 6)}.get(strike[2], (6,))
    assert first == 0 and second in expected
    assert sha256_of(tmp_path) == undisturbed and result.metrics["step"] == 9


def test_the_error_names_the_rank_and_shows_its_traceback(cluster, tmp_path):
    with pytest.raises(WorkerGroupError) as raised:
        trainer(train, tmp_path, strike=(1, 5, "raise")).fit()
    assert since_struck(tmp_path) < PROMPTLY_S
    assert isinstance(raised.value.worker_failures[1], ValueError)
    text = str(raised.value)
    assert "[Rank 1 Error Snippet]" in text and text.count("ValueError: a row that cannot be") == 1
    assert "Traceback (most recent call last)" in text and "functions.py" in text


def test_ranks_that_wait_for_each_other_say_so(cluster, tmp_path):
    config = MindNLPConfig(settings=DataParallelConfig(timeout=60))
    with pytest.raises(WorkerGroupError, match=r"rank \d is in all_gather_object .*, but rank \d in all_gather_object"):
        trainer(train, tmp_path, mindnlp_config=config, strike=(1, 5, "part")).fit()


def test_a_lost_node(cluster, undisturbed, tmp_path):
    (lost,) = cluster.worker_nodes

    def lose():
        cluster.remove_node(lost, allow_graceful=False)
        cluster.add_node(num_cpus=1)

    fit_while(trainer(train, tmp_path, max_failures=1, strike=(0, 4, "wait"), pace=1), tmp_path / "struck", lose)
    first, second = beginnings(tmp_path)
    assert (first, second) in ((0, 3), (0, 6)) and sha256_of(tmp_path) == undisturbed


def test_a_node_that_is_drained_costs_no_failure(cluster, undisturbed, tmp_path):
    """As Ray drains spot instances, and nodes of Kubernetes that are about to go."""
    (drained,) = cluster.worker_nodes
    spot = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    until_ms = int((time.time() + 600) * 1000)

    def drain():
        cluster.add_node(num_cpus=1)
        assert GcsClient(address=cluster.address).drain_node(drained.node_id, spot, "spot", until_ms)[0]

    fit_while(trainer(train, tmp_path, strike=(0, 2, "wait"), pace=2), tmp_path / "struck", drain)
    cluster.remove_node(drained)
    first, second = beginnings(tmp_path)
    assert first == 0 and 3 <= second <= 9 and sha256_of(tmp_path) == undisturbed


def test_a_loop_of_ones_own(cluster, tmp_path):
    """It reports what ``dp.save_state`` has written, and goes on from what Ray has kept."""
    sha256 = {}
    for name, strike in (("never", None), ("struck", (1, 7, "SIGKILL"))):
        output = tmp_path / name
        output.mkdir()
        result = trainer(own_loop, output, max_failures=1, strike=strike).fit()
        sha256[name] = sha256_of(output)
        assert result.metrics["step"] == 9
    assert beginnings(tmp_path / "struck") in ([0, 3], [0, 6]) and beginnings(tmp_path / "never") == [0]
    assert sha256["never"] == sha256["struck"]


def test_actors_without_ray_train_leave_at_once(cluster):
    @ray.remote(num_cpus=1)
    class Actor:
        def join(self, rank, port):
            variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
            os.environ.update({"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in variables.items()}})
            import mindnlp_dp_plugin as dp

            return os.getpid(), dp.all_gather_object(dp.get_rank())

    actors, port = [Actor.remote() for _ in range(2)], free_port()
    joined = ray.get([actor.join.remote(rank, port) for rank, actor in enumerate(actors)])
    processes = [psutil.Process(pid) for pid, ranks in joined if ranks == [0, 1]]
    assert len(processes) == 2
    del actors
    _, alive = psutil.wait_procs(processes, timeout=10)  # MindSpore alone takes 20 s
    assert not alive


def test_a_wrong_setting_is_not_tried_again(cluster, tmp_path):
    config = MindNLPConfig(settings=DataParallelConfig(backend="hccl"))
    with pytest.raises(ControllerError, match="this node has Ascend cards|backend='hccl' needs the device Ascend"):
        trainer(train, tmp_path, max_failures=5, mindnlp_config=config).fit()
