"""Train, evaluating and saving on the way, and end one rank by SIGKILL; resumes where an earlier run was killed.

    python killed.py OUTPUT PHASE STEP RANK DELAY

RANK dies DELAY seconds after it enters PHASE (``step``, ``save`` or ``evaluation``) at STEP, if it comes there;
``OUTPUT/end.rank<r>.json`` tells what a run that came to its end ended with.
"""

import hashlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import mindspore
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.engine.utils import get_last_checkpoint

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, PHASE = Path(sys.argv[1]), sys.argv[2]
STEP, RANK, DELAY = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])


class Mortal(Trainer):
    def _die_in(self, phase):
        if (phase, self.state.global_step, dp.get_rank()) == (PHASE, STEP, RANK):
            threading.Timer(DELAY, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def training_step(self, *arguments):
        self._die_in("step")
        return super().training_step(*arguments)

    def _save_checkpoint(self, *arguments, **keywords):
        self._die_in("save")
        super()._save_checkpoint(*arguments, **keywords)

    def evaluate(self, *arguments, **keywords):
        self._die_in("evaluation")
        return super().evaluate(*arguments, **keywords)

    def _load_best_model(self):
        self.digest_of_last = digest_of(self.model)
        super()._load_best_model()


def digest_of(model):
    return hashlib.sha256(b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())).hexdigest()


def main():
    folder = OUTPUT / "trainer"
    folder.mkdir(exist_ok=True)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=12,
        gradient_accumulation_steps=2,
        evaluation_strategy="steps",
        eval_steps=1,
        save_steps=1,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,  # so that the best is not the last
        learning_rate=1e-3,
        logging_steps=2,
        disable_tqdm=True,
    )
    model = tiny_model(seed=3 if get_last_checkpoint(folder) is None else 4)
    trainer = Mortal(model, arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) is not None)
    dp.check_replicas(model)
    ended_with = {
        "last": trainer.digest_of_last,
        "best": digest_of(model),
        "best_checkpoint": Path(trainer.state.best_model_checkpoint).name,
        "log": [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry],
        "seeds": [mindspore.get_seed(), mindspore.dataset.config.get_seed()],
    }
    (OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ended_with))


main()
