"""Run a training function on Ray, in a thread while a test does something to its nodes."""

import hashlib
import json
import threading
import time
from pathlib import Path

DEADLINE_S = 300


def sha256_of(output):
    """The digest of the model that was saved there."""
    return hashlib.sha256(Path(output, "model", "model.safetensors").read_bytes()).hexdigest()


def beginnings(output):
    """The optimizer step with which each attempt began."""
    return [json.loads(path.read_text()) for path in sorted(Path(output).glob("begun.*.json"))]


def trainer(function, output, max_failures=0, mindnlp_config=None, **config):
    """A ``MindNLPTrainer`` of two workers on two nodes."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig

    from mindnlp_dp_plugin.ray import MindNLPTrainer

    return MindNLPTrainer(
        function,
        train_loop_config={"output": str(output), **config},
        mindnlp_config=mindnlp_config,
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=RunConfig(
            name="run", storage_path=str(output / "storage"), failure_config=FailureConfig(max_failures=max_failures)
        ),
    )


def fit_while(trainer, mark, act):
    """``trainer.fit()``, and ``act()`` in this thread as soon as there is a file ``mark``."""
    ends = []

    def fit():
        try:
            ends.append(trainer.fit())
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=fit)
    thread.start()
    deadline = time.monotonic() + DEADLINE_S
    while thread.is_alive() and not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    if mark.exists():
        act()
    thread.join(DEADLINE_S)
    (end,) = ends
    if isinstance(end, BaseException):
        raise end
    return end
