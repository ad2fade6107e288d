"""``MindNLPTrainer``: Ray Train's Trainer for functions that train by MindNLP."""

import copy
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import DEFERRED, NAMES, PREFIX
from mindnlp_dp_plugin.ray.backend import MindNLPConfig


class MindNLPTrainer(DataParallelTrainer):
    """Runs a training function on workers of Ray, which are the ranks of one training.

    The function is one that ``mindnlp-dp run`` could execute: it calls MindNLP's ``Trainer.train()``, Hugging Face's
    over MindNLP 0.5, or a loop of its own over ``dp.prepare``, on all rows; each rank gets its share of them. Ray
    itself sees nothing of it unless the Trainer has a ``RayReportCallback``, or the function calls
    ``ray.train.report``.

    The workers need the plugin, and so does whatever the function imports. ``import mindnlp_dp_plugin`` comes first
    there, too. What ``MINDNLP_DP_*`` and ``GLOG_v``, MindSpore's own log level, set where this object is made holds for
    the workers.

    Args:
        train_loop_per_worker: The function, which is called without arguments, or with ``train_loop_config``.
        train_loop_config: What the function gets.
        mindnlp_config: How the workers join.
        scaling_config: How many workers, and what each gets. ``num_workers`` is fixed; a worker has one device.
        run_config: Ray's: name, storage, failures, checkpoints to keep.

    Raises:
        DataParallelError: If the ``scaling_config`` asks for what ranks are not.

    Examples:
        >>> trainer = MindNLPTrainer(train, scaling_config=ScalingConfig(num_workers=2))
        >>> result = trainer.fit()
        >>> print(result.metrics)
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[[], Any] | Callable[[dict], Any],
        *,
        train_loop_config: dict | None = None,
        mindnlp_config: MindNLPConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
    ):
        scaling_config = scaling_config or ScalingConfig()
        _require_ranks(scaling_config)
        run_config = _with_variables(run_config or RunConfig(), os.environ)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=replace(mindnlp_config or MindNLPConfig(), job=_job_of(run_config)),
            scaling_config=scaling_config,
            run_config=run_config,
        )


def _require_ranks(scaling_config):
    if scaling_config.elasticity_enabled:
        raise DataParallelError(
            "num_workers={count} lets Ray change the number of ranks, and a step's rows with it: give one number.",
            count=scaling_config.num_workers,
        )
    if scaling_config.use_gpu or scaling_config.use_tpu:
        raise DataParallelError(
            "use_gpu and use_tpu ask for devices on which MindNLP does not train: leave both out, and ask for "
            'resources_per_worker={{"NPU": 1}} on Ascend.'
        )
    cards = (scaling_config.resources_per_worker or {}).get("NPU", 1)
    if cards != 1:
        raise DataParallelError(
            'resources_per_worker={{"NPU": {cards}}}, but a rank computes on one whole card: ask for {{"NPU": 1}}, or '
            "leave it out for the CPU.",
            cards=cards,
        )


def _with_variables(run_config, environ: Mapping[str, str]):
    """The same, with the user's variables for the workers, and those that must be there before Python starts."""
    given = dict(run_config.worker_runtime_env or {})
    mine = {name: value for name, value in environ.items() if name.startswith(PREFIX) or name == "GLOG_v"}
    mine = {name: value for name, value in mine.items() if name not in NAMES}
    fixed = {
        # Sets and dictionaries of texts come in the same order on all ranks.
        "PYTHONHASHSEED": environ.get("PYTHONHASHSEED", "0"),
        # As MindSpore sets it, whose messages before 2.8 no other can read; Ray imports protobuf first.
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        DEFERRED: "1",
    }
    run_config = copy.copy(run_config)
    run_config.worker_runtime_env = {**given, "env_vars": {**fixed, **mine, **given.get("env_vars", {})}}
    return run_config


def _job_of(run_config):
    """The same for a run that goes on under its name, where Ray finds what it has stored."""
    where = f"{run_config.storage_path}/{run_config.name}"
    return f"ray-{hashlib.sha256(where.encode()).hexdigest()[:16]}"
