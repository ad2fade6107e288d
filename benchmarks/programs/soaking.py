"""What ``soak.py`` starts on each rank: train for SECONDS, and note every few of them what this process takes.

    python soaking.py OUTPUT SECONDS [bridged]

``bridged``: one process with MindNLP's own Trainer, and nothing of the plugin but the bridges to this MindSpore.
"""

import gc
import json
import os
import sys
import time
from pathlib import Path

if "bridged" in sys.argv:
    os.environ["MINDNLP_DP_DEFERRED"] = "1"  # the package is imported, but not armed
    from mindnlp_dp_plugin import compat
    from mindnlp_dp_plugin.runtime import cpu_affinity

    compat.bridge()
    import mindspore

    cpu_affinity.tune_mindspore(mindspore)

import psutil
from mindnlp.engine import TrainerCallback

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_trainer

OUTPUT, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
STEPS_BETWEEN_LOOKS = 10
SECONDS_BETWEEN_SAMPLES = 5


class Notes(TrainerCallback):
    """Every rank looks at the clock at the same steps, and rank 0's decides."""

    def __init__(self, model):
        self._model = model
        self._process = psutil.Process()
        self._file = (OUTPUT / f"samples.rank{dp.get_rank()}.jsonl").open("w", buffering=1)
        self._began = time.monotonic()
        self._next_sample = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % STEPS_BETWEEN_LOOKS:
            return
        seconds = dp.broadcast_object(time.monotonic() - self._began)
        if seconds < self._next_sample:
            return
        self._next_sample = seconds + SECONDS_BETWEEN_SAMPLES
        dp.check_replicas(self._model)
        gc.collect()
        sample = {
            "seconds": seconds,
            "step": state.global_step,
            "rss_mb": self._process.memory_info().rss / 2**20,
            "num_fds": self._process.num_fds(),
            "num_threads": self._process.num_threads(),
        }
        self._file.write(json.dumps(sample) + "\n")
        control.should_training_stop = seconds > SECONDS


def main():
    trainer = tiny_trainer(
        OUTPUT / "trainer",
        dataset=tiny_dataset(num_rows=512),
        max_steps=10**7,
        logging_steps=500,
        evaluation_strategy="steps",
        eval_steps=200,
        save_strategy="steps",
        save_steps=500,
        save_total_limit=2,
    )
    trainer.eval_dataset = tiny_dataset(num_rows=64)
    trainer.add_callback(Notes(trainer.model))
    trainer.train()
    dp.check_replicas(trainer.model)


main()
