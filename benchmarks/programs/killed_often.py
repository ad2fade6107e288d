"""Train while faults strike (``tests/programs/faults.py``).

    python killed_often.py OUTPUT MAX_STEPS

Each step is saved, and faults may strike meanwhile.

Each start adds a line to ``OUTPUT/starts.rank<r>`` when its first step begins: the time, and how many steps are done.
``OUTPUT/end.rank<r>.json`` tells what a run that came to its end ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
import time
from pathlib import Path

from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments

from tests.programs.faults import comes_to
from tests.programs.resume_scenarios import digest_of, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, MAX_STEPS = Path(sys.argv[1]), int(sys.argv[2])
STEP_S = 0.3  # a model worth training in parallel takes longer


class Steps(TrainerCallback):
    has_begun = False

    def on_step_begin(self, args, state, control, **kwargs):
        if not self.has_begun:
            self.has_begun = True
            with (OUTPUT / f"starts.rank{dp.get_rank()}").open("a") as starts:
                starts.write(f"{time.time()} {state.global_step}\n")
        comes_to("backward", state.global_step)
        time.sleep(STEP_S)


class Mortal(Trainer):
    def _save_checkpoint(self, *arguments, **options):
        comes_to("save", self.state.global_step)
        super()._save_checkpoint(*arguments, **options)


arguments = TrainingArguments(
    output_dir=str(OUTPUT / "trainer"), max_steps=MAX_STEPS, evaluation_strategy="epoch",
    save_strategy="steps", save_steps=1, save_total_limit=3, learning_rate=1e-3, logging_steps=5,
    disable_tqdm=True,
)  # fmt: skip
data = dict(train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
trainer = Mortal(tiny_model(), arguments, callbacks=[Steps()], **data)
trainer.train()
evaluations = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
ended = {"parameters": digest_of(trainer.model), "evaluations": evaluations}
(OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ended))
