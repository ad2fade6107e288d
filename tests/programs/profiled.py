"""Train with known pauses, so that a profile must find them, and leave the weights.

    python profiled.py OUTPUT MAX_STEPS

Each batch takes ``DATA_S`` to read, and each forward of rank 1 ``FORWARD_S`` more. Leaves the digest of the weights in
``OUTPUT/weights.json``, and each step's seconds on rank 0.
"""

import json
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

from mindnlp.engine import Trainer, TrainerCallback

from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.step import training_rows
from tests.programs.tiny import tiny_dataset, tiny_trainer

DATA_S, FORWARD_S = 0.1, 0.5


class SlowForward(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        if dp.get_rank() == 1:
            time.sleep(FORWARD_S)
        return super().compute_loss(model, inputs, return_outputs)


class Seconds(TrainerCallback):
    ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def read_slowly(read):
    """What MindSpore would hide by reading ahead: a pause while the loop waits for its batch."""

    def slowly(self, options):
        for batch in read(self, options):
            time.sleep(DATA_S)
            yield batch

    return slowly


if __name__ == "__main__":
    for kind in training_rows.ShardedDataset.__subclasses__():
        kind._read = read_slowly(kind._read)
    output, max_steps = Path(sys.argv[1]), int(sys.argv[2])
    seconds = Seconds()
    trainer = tiny_trainer(
        output / "trainer",
        trainer_type=SlowForward,
        dataset=tiny_dataset(256),
        max_steps=max_steps,
        callbacks=[seconds],
    )
    trainer.train()
    if dp.is_main_process():
        left = {"weights": [digest(parameter) for parameter in trainer.model.parameters()], "ends": seconds.ends}
        (output / "left.json").write_text(json.dumps(left))
