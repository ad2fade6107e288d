"""Train, with checkpoints in memory only, until a node is gone or the end has come: ``python fewer_nodes.py OUTPUT``.

``WAITS_AT="3 5"``: the first start waits at step 3, the second at step 5, until it is ended or ``OUTPUT/fail`` exists.
``OUTPUT/steps.rank<r>`` counts the optimizer steps; ``OUTPUT/starts.rank<r>`` says when each start made its first one;
``OUTPUT/end.npz`` holds the parameters that rank 0 ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import os
import sys
import time
from pathlib import Path

import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments

from tests.programs.tiny import tiny_model, tiny_rows

OUTPUT = Path(sys.argv[1])
START = int(os.environ.get("MINDNLP_DP_RESTART", 0))
WAITS_AT = dict(enumerate(map(int, os.environ.get("WAITS_AT", "").split()))).get(START)


class Counts(Trainer):
    def training_step(self, *arguments):
        step, counted = self.state.global_step, OUTPUT / f"steps.rank{dp.get_rank()}"
        counted.write_text(str(step))
        while step == WAITS_AT:
            if dp.get_rank() == 1 and (OUTPUT / "fail").exists():
                raise RuntimeError("as asked for")
            time.sleep(0.05)
        return super().training_step(*arguments)


class NotesStarts(TrainerCallback):
    has_begun = False

    def on_step_end(self, *arguments, **more):
        if not self.has_begun:
            with (OUTPUT / f"starts.rank{dp.get_rank()}").open("a") as starts:
                starts.write(f"{time.time()}\n")
        self.has_begun = True


arguments = TrainingArguments(
    output_dir=str(OUTPUT / "trainer"), num_train_epochs=2, gradient_accumulation_steps=2, save_strategy="no",
    learning_rate=1e-2, adam_epsilon=1e-4, lr_scheduler_type="cosine", logging_steps=1, disable_tqdm=True,
)  # fmt: skip
model = tiny_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
trainer = Counts(model, arguments, train_dataset=tiny_rows(48, shuffle=True).batch(2), callbacks=[NotesStarts])
trainer.train()
assert arguments.gradient_accumulation_steps == 2 and trainer.state.global_step == 8
if dp.is_main_process():
    np.savez(OUTPUT / "end.npz", *[parameter.asnumpy() for parameter in model.parameters()])
