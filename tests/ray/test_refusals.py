"""What ranks are not is refused where it is asked for, before Ray starts anything."""

import pytest

pytest.importorskip("ray.train", reason="Ray is not installed; `make ray` runs these tests")

from ray.train import RunConfig, ScalingConfig

from mindnlp_dp_plugin import DataParallelConfig, DataParallelError
from mindnlp_dp_plugin.ray import MindNLPConfig, MindNLPTrainer, hyperparameter_search


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ({"num_workers": (1, 2)}, r"num_workers=\(1, 2\) lets Ray change the number of ranks"),
        ({"use_gpu": True}, "use_gpu and use_tpu ask for devices on which MindNLP does not train"),
        ({"resources_per_worker": {"NPU": 2}}, r'resources_per_worker=\{"NPU": 2\}, but a rank computes on one'),
        ({"resources_per_worker": {"NPU": 0.5}}, r'resources_per_worker=\{"NPU": 0.5\}, but a rank computes on one'),
    ],
)
def test_workers_that_are_no_ranks(scaling, words):
    with pytest.raises(DataParallelError, match=words):
        MindNLPTrainer(print, scaling_config=ScalingConfig(**scaling))


def test_settings():
    with pytest.raises(DataParallelError, match="backend='mpi' needs mpirun, but Ray starts the workers"):
        MindNLPConfig(settings=DataParallelConfig(backend="mpi"))
    with pytest.raises(DataParallelError, match="direction='up' is not known: choose one of minimize, maximize"):
        hyperparameter_search(print, {}, direction="up")


def test_what_is_set_where_the_trainer_is_made_holds_for_the_workers(monkeypatch):
    monkeypatch.setenv("MINDNLP_DP_AVERAGE_OVER", "ranks")
    monkeypatch.setenv("MINDNLP_DP_JOB", "of a rank around it")
    monkeypatch.setenv("GLOG_v", "2")
    own = {"env_vars": {"MINE": "1"}, "pip": ["a"]}
    run_config = RunConfig(worker_runtime_env=own)
    trainer = MindNLPTrainer(print, run_config=run_config)
    assert trainer.backend_config.settings.average_over == "ranks"
    given = trainer.run_config.worker_runtime_env
    assert given["pip"] == ["a"] and run_config.worker_runtime_env == own
    expected = {
        "MINE": "1",
        "GLOG_v": "2",
        "MINDNLP_DP_AVERAGE_OVER": "ranks",
        "MINDNLP_DP_DEFERRED": "1",
        "PYTHONHASHSEED": "0",
    }
    assert {name: given["env_vars"].get(name) for name in expected} == expected
    assert "MINDNLP_DP_JOB" not in given["env_vars"]
