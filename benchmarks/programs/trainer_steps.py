"""Time the steps of ``Trainer.train()``, optimizer and all, one way after the other, on each rank.

    python trainer_steps.py OUTPUT MODEL STEPS ROUNDS WAY...

Ways: ``plugin``; ``host_work``, with the work on the host that the plugin saves left in; ``alone``, each rank by itself
with MindNLP's own Trainer. Each round trains a few steps in each way. Rank r leaves OUTPUT/trainer_steps.rank<r>.json.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

from mindnlp.engine import Trainer, TrainingArguments

from benchmarks.programs import models
from benchmarks.programs.clock import Clock
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step import step
from mindnlp_dp_plugin.trainers.mindnlp import session

OUTPUT, MODEL, STEPS, ROUNDS, WAYS = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5:]
WARM_UP = 2


def train(model):
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / "trainer"), max_steps=WARM_UP + 1 + STEPS, logging_steps=10**6, save_strategy="no",
        disable_tqdm=True, log_level="error",
    )  # fmt: skip
    data = models.dataset(MODEL, 64 * models.MODELS[MODEL][1])
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[clock]).train()
    return [end - begin for begin, end in zip(clock.ends[WARM_UP:], clock.ends[WARM_UP + 1 :])]


def main():
    model = models.make(MODEL)
    taken = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            patches = Patches()
            if way == "host_work":
                patches.replace(step, "clip_by_buckets", lambda *_: None)
                patches.replace(session, "count_parameters_once", lambda *_: None)
            dp.barrier()
            if way == "alone":
                dp.uninstall()
            taken[way] += train(model)
            patches.undo()
            if way == "alone":
                dp.install()
    (OUTPUT / f"trainer_steps.rank{dp.get_rank()}.json").write_text(json.dumps({"seconds": taken}))


if __name__ == "__main__":
    main()
