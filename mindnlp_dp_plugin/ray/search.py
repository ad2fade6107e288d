"""A search over settings: each trial of Ray Tune is a training on ranks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray import tune
from ray.train import RunConfig, ScalingConfig
from ray.tune.integration.ray_train import TuneReportCallback
from ray.tune.schedulers import ASHAScheduler

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.ray.backend import MindNLPConfig
from mindnlp_dp_plugin.ray.trainer import MindNLPTrainer

OF_A_TRIAL = {"node:__internal_head__": 0.001}  # no core: its workers take theirs, beside what starts them
MODES = {"minimize": "min", "maximize": "max"}


class BestRun(NamedTuple):
    """What a search has found; the first three are those of Hugging Face's ``BestRun``.

    Attributes:
        run_id: The best trial's name.
        objective: Its last value of the metric.
        hyperparameters: Its settings.
        results: All trials, Ray's ``ResultGrid``; ``get_dataframe()`` is a table of them.

    Examples:
        >>> print(best.hyperparameters, best.objective)
        >>> print(best.results.get_dataframe())
    """

    run_id: str
    objective: float
    hyperparameters: dict[str, Any]
    results: tune.ResultGrid


def hyperparameter_search(
    train_loop_per_worker: Callable[[dict], Any],
    hp_space: dict[str, Any],
    *,
    metric: str = "eval_loss",
    direction: str = "minimize",
    n_trials: int = 20,
    train_loop_config: dict | None = None,
    mindnlp_config: MindNLPConfig | None = None,
    scaling_config: ScalingConfig | None = None,
    run_config: tune.RunConfig | None = None,
    **tune_config: Any,
) -> BestRun:
    """Train with settings that Ray Tune draws, end what does worse early, and return what did best.

    As many trials run side by side as the cluster has room for. The names are those of Hugging Face's
    ``Trainer.hyperparameter_search``; it takes a function in place of the Trainer, as MindSpore's data pipelines cannot
    be sent to other processes. It is long because it hands the arguments of three of Ray's objects on.

    Args:
        train_loop_per_worker: The function of ``MindNLPTrainer``; its Trainer has a ``RayReportCallback``. It gets
            ``train_loop_config`` with a trial's settings.
        hp_space: What to draw each setting from: ``{"learning_rate": tune.loguniform(1e-5, 1e-2)}``.
        metric: What the best is chosen by, a name that is reported.
        direction: ``"minimize"`` or ``"maximize"`` it.
        n_trials: How many settings to try.
        train_loop_config: What all trials get.
        mindnlp_config: How workers join.
        scaling_config: The workers of each trial.
        run_config: Tune's: name, storage, what the reporter shows.
        tune_config: Further fields of Ray's ``TuneConfig``: ``scheduler`` (ASHA if not given; None lets each trial
            come to its end), ``search_alg``, ``max_concurrent_trials``.

    Raises:
        DataParallelError: If ``direction`` is none of the two, or the cluster has no room for one trial.
        RuntimeError: If no trial has reported the metric.

    Examples:
        >>> space = {"learning_rate": tune.loguniform(1e-5, 1e-2)}
        >>> best = hyperparameter_search(train, space, metric="eval_accuracy", direction="maximize")
        >>> print(best.hyperparameters, best.objective)
    """
    if direction not in MODES:
        known = {"direction": direction, "choices": ", ".join(MODES)}
        raise DataParallelError("direction={direction!r} is not known: choose one of {choices}.", **known)
    scaling_config = scaling_config or ScalingConfig()
    run_config = run_config or tune.RunConfig()
    mindnlp_config = mindnlp_config or MindNLPConfig()

    def trial(settings):
        MindNLPTrainer(
            train_loop_per_worker,
            train_loop_config={**(train_loop_config or {}), **settings},
            mindnlp_config=mindnlp_config,
            scaling_config=scaling_config,
            run_config=RunConfig(
                name=tune.get_context().get_trial_name(),
                storage_path=f"{run_config.storage_path}/trainings",
                storage_filesystem=run_config.storage_filesystem,
                callbacks=[ReportsOf(metric)],
            ),
        ).fit()

    tune_config = {"scheduler": ASHAScheduler(), "max_concurrent_trials": _num_at_once(scaling_config), **tune_config}
    tuner = tune.Tuner(
        tune.with_resources(trial, OF_A_TRIAL),
        param_space=hp_space,
        tune_config=tune.TuneConfig(metric=metric, mode=MODES[direction], num_samples=n_trials, **tune_config),
        run_config=run_config,
    )
    results = tuner.fit()
    best = results.get_best_result()
    return BestRun(best.path.rpartition("/")[2], best.metrics[metric], best.config, results)


class ReportsOf(TuneReportCallback):
    """Passes on to Tune what a trial reports, once that holds the metric: Tune wants it in each report.

    Args:
        metric: Its name.
    """

    def __init__(self, metric: str):
        super().__init__()
        self._metric = metric

    def after_report(self, run_context, metrics, checkpoint):
        """Called by Ray's controller with a report of all ranks."""
        if self._metric in metrics[0]:
            super().after_report(run_context, metrics, checkpoint)


def _num_at_once(scaling_config):
    """How many groups of workers the cluster has room for."""
    ray.is_initialized() or ray.init()
    there = ray.cluster_resources()
    wanted = {name: count for name, count in scaling_config.total_resources.items() if count}
    num = min(int(there.get(name, 0) // count) for name, count in wanted.items())
    if num == 0:
        known = {"wanted": wanted, "there": {name: there.get(name, 0) for name in wanted}}
        raise DataParallelError(
            "a trial needs {wanted}, and the cluster has {there}: ask for fewer workers in scaling_config.", **known
        )
    return num
