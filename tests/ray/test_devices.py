"""The card that Ray assigns is the one a worker takes. There is no card here: Ray is told of some."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("ray.train", reason="Ray is not installed; `make ray` runs these tests")

import ray
from ray.train import RunConfig, ScalingConfig

from mindnlp_dp_plugin import DataParallelConfig, DataParallelError
from mindnlp_dp_plugin.job import hardware
from mindnlp_dp_plugin.ray import MindNLPTrainer, devices

VISIBLE, NOT_SET = hardware.VISIBLE_DEVICES, "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("visible", "assigned", "device"),
    [("6", ["6"], 0), (None, ["6"], 6), ("4,6", ["6"], 1), (None, [], None), ("", [], None)],
    ids=["its own alone, as Ray shows it", "all", "those of the node's Ray", "no card", "none shown"],
)
def test_the_assigned_card_among_those_that_are_seen(monkeypatch, visible, assigned, device):
    monkeypatch.delenv(VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert devices.choose_device({"GPU": [], "NPU": assigned}, DataParallelConfig()) == device


def test_what_no_rank_can_take_is_refused(monkeypatch):
    monkeypatch.setenv(VISIBLE, "4,5")
    with pytest.raises(DataParallelError, match="the 2 cards 4, 5, but a rank uses one"):
        devices.choose_device({"NPU": ["4", "5"]}, DataParallelConfig())
    with pytest.raises(DataParallelError, match=f"Ray has assigned card 6, but {VISIBLE}=4,5 does not show it"):
        devices.choose_device({"NPU": ["6"]}, DataParallelConfig())
    monkeypatch.setattr(hardware, "_cards", lambda: ["/dev/davinci0"])
    with pytest.raises(DataParallelError, match="Ray has assigned none to the worker"):
        devices.choose_device({"NPU": []}, DataParallelConfig())
    assert devices.choose_device({"NPU": []}, DataParallelConfig(backend="mccl")) is None


def note_device(config):
    import mindnlp_dp_plugin as dp  # isort: skip

    seen = {name: os.environ.get(name) for name in (VISIBLE, "DEVICE_ID", "LOCAL_RANK")}
    seen["assigned"] = ray.get_runtime_context().get_accelerator_ids()["NPU"]
    Path(config["output"], f"rank{dp.get_rank()}.json").write_text(json.dumps(seen))


@pytest.mark.slow
@pytest.mark.parametrize("is_set", [True, False])
def test_workers_take_what_ray_assigns(cluster, tmp_path, is_set):
    node = cluster.add_node(num_cpus=3, resources={"NPU": 3})
    first = ray.remote(resources={"NPU": 1}, num_cpus=1)(Holder).remote()  # the first card is another job's
    (held,) = ray.get(first.cards.remote())
    MindNLPTrainer(
        note_device,
        train_loop_config={"output": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"NPU": 1, "CPU": 1}),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path / "storage"),
            worker_runtime_env={"env_vars": {} if is_set else {NOT_SET: "1"}},
        ),
    ).fit()
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert {card for rank in ranks for card in rank["assigned"]} == {"0", "1", "2"} - {held}
    for rank in ranks:
        assert (rank[VISIBLE], rank["DEVICE_ID"]) == ((*rank["assigned"], "0") if is_set else (None, *rank["assigned"]))
    ray.kill(first)
    cluster.remove_node(node)


class Holder:
    def cards(self):
        return ray.get_runtime_context().get_accelerator_ids()["NPU"]
