"""Train with known pauses, so that a profile must find them, and leave the weights.

    python profiled.py OUTPUT NAME:PROFILE:MAX_STEPS:LANGUAGE...

Each batch takes ``DATA_S`` to read, and each forward of rank 1 ``FORWARD_S`` more; without a PROFILE there is no pause.
Leaves the digest of the weights in ``OUTPUT/NAME/left.json``, and each step's seconds on rank 0. The run "hidden" finds
no matplotlib, and leaves what each rank is told in ``OUTPUT/hidden/said.rank<r>.txt``.
"""

import json
import os
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
        if dp.get_rank() == 1 and dp.DataParallelConfig.from_env().profile:
            time.sleep(FORWARD_S)
        return super().compute_loss(model, inputs, return_outputs)


class Seconds(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def read_slowly(read):
    """What MindSpore would hide by reading ahead: a pause while the loop waits for its batch."""

    def slowly(self, options):
        for batch in read(self, options):
            if dp.DataParallelConfig.from_env().profile:
                time.sleep(DATA_S)
            yield batch

    return slowly


def train(folder, profile, max_steps, language):
    os.environ.update(MINDNLP_DP_PROFILE=profile, MINDNLP_DP_LANG=language)
    if not profile:
        del os.environ["MINDNLP_DP_PROFILE"]
    dp.install(dp.DataParallelConfig.from_env())
    seconds = Seconds()
    trainer = tiny_trainer(
        folder / "trainer",
        trainer_type=SlowForward,
        dataset=tiny_dataset(256),
        max_steps=int(max_steps),
        callbacks=[seconds],
    )
    trainer.train()
    if dp.is_main_process():
        left = {"weights": [digest(parameter) for parameter in trainer.model.parameters()], "ends": seconds.ends}
        (folder / "left.json").write_text(json.dumps(left))


def train_without_matplotlib(folder, *settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "matplotlib.py").write_text("raise ImportError('hidden')")
    sys.path.insert(0, str(folder))
    try:
        train(folder, *settings)
    except dp.DataParallelError as error:
        (folder / f"said.rank{dp.get_rank()}.txt").write_text(str(error))
    sys.path.remove(str(folder))


if __name__ == "__main__":
    for kind in training_rows.ShardedDataset.__subclasses__():
        kind._read = read_slowly(kind._read)
    for run in sys.argv[2:]:
        name, *settings = run.split(":")
        way = train_without_matplotlib if name == "hidden" else train
        way(Path(sys.argv[1], name), *settings)
