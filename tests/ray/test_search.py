"""A search over settings: each trial trains on ranks, and the best one by the metric is found."""

import pytest

pytest.importorskip("ray.train", reason="Ray is not installed; `make ray` runs these tests")

from ray import tune
from ray.train import ScalingConfig

from mindnlp_dp_plugin import DataParallelError
from mindnlp_dp_plugin.ray import hyperparameter_search
from tests.ray.functions import train

pytestmark = pytest.mark.slow


def test_the_best_settings_are_found(cluster, tmp_path):
    best = hyperparameter_search(
        train,
        {"learning_rate": tune.grid_search([0.0, 1e-3])},
        n_trials=1,
        train_loop_config={"output": str(tmp_path), "home": "trainer"},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=tune.RunConfig(name="search", storage_path=str(tmp_path / "storage")),
    )
    losses = {one.config["learning_rate"]: one.metrics["eval_loss"] for one in best.results}
    assert set(losses) == {0.0, 1e-3} and losses[0.0] != losses[1e-3]
    assert best.hyperparameters["learning_rate"] == min(losses, key=losses.get) and best.objective == min(
        losses.values()
    )
    assert {"eval_loss", "loss", "epoch", "samples_per_second"} <= set(best.results.get_dataframe())


def test_more_workers_than_there_is_room_for(cluster):
    with pytest.raises(DataParallelError, match=r"a trial needs \{'CPU': 9.*, and the cluster has \{'CPU': 2"):
        hyperparameter_search(train, {}, scaling_config=ScalingConfig(num_workers=9))
