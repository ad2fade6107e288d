"""Train and save each step while faults strike (see ``faults.py``): ``python killed_often.py OUTPUT MAX_STEPS``.

``OUTPUT/end.rank<r>.json`` tells what a run that came to its end
ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

from mindnlp.engine import Trainer, TrainingArguments

from tests.programs.faults import comes_to
from tests.programs.resume_scenarios import digest_of, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, MAX_STEPS = Path(sys.argv[1]), int(sys.argv[2])


class Mortal(Trainer):
    def training_step(self, *arguments):
        comes_to("backward", self.state.global_step)
        return super().training_step(*arguments)


arguments = TrainingArguments(
    output_dir=str(OUTPUT / "trainer"), max_steps=MAX_STEPS, gradient_accumulation_steps=2, logging_steps=2,
    evaluation_strategy="epoch", learning_rate=1e-3, disable_tqdm=True,
    save_strategy="steps", save_steps=1, save_total_limit=2,
)  # fmt: skip
trainer = Mortal(tiny_model(), arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
trainer.train()
evaluations = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
ended = {"parameters": digest_of(trainer.model), "evaluations": evaluations, "step": trainer.state.global_step}
(OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ended))
