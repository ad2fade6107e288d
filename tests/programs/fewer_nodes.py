"""Train, with checkpoints in memory only, until a node is gone or the end has come: ``python fewer_nodes.py OUTPUT``.

``OUTPUT/steps.rank<r>`` counts the optimizer steps; ``OUTPUT/end.npz`` holds the parameters that rank 0 ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import os
import sys
import time
from pathlib import Path

import numpy as np
from mindnlp.engine import Trainer, TrainingArguments

from tests.programs.tiny import tiny_model, tiny_rows

OUTPUT = Path(sys.argv[1])
WAITS_AT = int(os.environ.get("WAITS_AT", -1))  # for whoever takes a node away


class Counts(Trainer):
    def training_step(self, *arguments):
        step = self.state.global_step
        (OUTPUT / f"steps.rank{dp.get_rank()}").write_text(str(step))
        while step == WAITS_AT and os.environ["MINDNLP_DP_RESTART"] == "0":
            time.sleep(0.05)
        return super().training_step(*arguments)


arguments = TrainingArguments(
    output_dir=str(OUTPUT / "trainer"), num_train_epochs=2, gradient_accumulation_steps=2, save_strategy="no",
    learning_rate=1e-2, adam_epsilon=1e-4, lr_scheduler_type="cosine", logging_steps=1, disable_tqdm=True,
)  # fmt: skip
model = tiny_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
trainer = Counts(model, arguments, train_dataset=tiny_rows(48, shuffle=True).batch(2))
trainer.train()
assert arguments.gradient_accumulation_steps == 2 and trainer.state.global_step == 8
if dp.is_main_process():
    np.savez(OUTPUT / "end.npz", *[parameter.asnumpy() for parameter in model.parameters()])
