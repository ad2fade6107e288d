"""Train with a checkpoint after each step; a rank is killed once: ``python killed_once.py OUTPUT``.

``STRIKES="3 1"``: at step 3, rank 1 kills itself, unless ``OUTPUT/struck`` exists, which it writes first. With a third
word it kills the process that has started it, too.
``OUTPUT/starts.rank<r>`` says at which step each start began, on how many ranks, and when its first step was done;
``OUTPUT/end.npz`` holds the parameters that rank 0 ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mindnlp.engine import Trainer, TrainerCallback

from tests.programs.noted import weights_of
from tests.programs.tiny import tiny_rows, tiny_trainer, without_dropout

OUTPUT = Path(sys.argv[1])
STEP, RANK, *KILLS_LAUNCHER = os.environ.get("STRIKES", "-1 -1").split()


class Strikes(Trainer):
    def training_step(self, *arguments):
        struck = OUTPUT / "struck"
        if (self.state.global_step, dp.get_rank()) == (int(STEP), int(RANK)) and not struck.exists():
            struck.write_text(f"{time.time()}")
            if KILLS_LAUNCHER:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().training_step(*arguments)


class NotesStarts(TrainerCallback):
    has_begun = False

    def on_step_end(self, arguments, state, *others, **more):
        if not self.has_begun:
            with (OUTPUT / f"starts.rank{dp.get_rank()}").open("a") as starts:
                starts.write(f"{state.global_step - 1} {dp.get_world_size()} {time.time()}\n")
        self.has_begun = True


arguments = dict(max_steps=-1, num_train_epochs=2, gradient_accumulation_steps=2, save_strategy="steps", save_steps=1)
arguments |= dict(learning_rate=1e-2, adam_epsilon=1e-4, lr_scheduler_type="cosine", logging_steps=1)
rows = tiny_rows(48, shuffle=True).batch(2)
trainer = tiny_trainer(OUTPUT / "trainer", without_dropout(), rows, Strikes, [NotesStarts], **arguments)
trainer.train()
assert trainer.args.gradient_accumulation_steps == 2, "what the script asked for is back"
if dp.is_main_process():
    np.savez(OUTPUT / "end.npz", *weights_of(trainer.model))
