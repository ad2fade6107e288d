"""Train, evaluating and saving on the way, while faults strike (see ``faults.py``).

    python struck.py OUTPUT MAX_STEPS [resume]

With ``resume`` it resumes by hand where an earlier run was killed. ``OUTPUT/end.rank<r>.json`` tells what a run that
came to its end ended with.
"""

import json
import sys
from pathlib import Path

import mindspore
from mindnlp.engine import TrainingArguments
from mindnlp.engine.utils import get_last_checkpoint

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from tests.programs.faults import RESTART, comes_to
from tests.programs.resume_scenarios import RemembersTheLast, digest_of, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, MAX_STEPS = Path(sys.argv[1]), int(sys.argv[2])


class Mortal(RemembersTheLast):
    def training_step(self, *arguments):
        comes_to("backward", self.state.global_step)
        return super().training_step(*arguments)

    def _save_checkpoint(self, *arguments, **keywords):
        comes_to("save", self.state.global_step)
        super()._save_checkpoint(*arguments, **keywords)

    def evaluate(self, *arguments, **keywords):
        comes_to("evaluation", self.state.global_step)
        return super().evaluate(*arguments, **keywords)


def announce(group, name, step):
    """Let a collective of the group be a moment, too."""
    collective = getattr(group, name)

    def announced(*arguments, **keywords):
        comes_to(name, step())
        return collective(*arguments, **keywords)

    setattr(group, name, announced)


def main():
    folder = OUTPUT / "trainer"
    folder.mkdir(exist_ok=True)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=MAX_STEPS,
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
    by_hand = "resume" in sys.argv and get_last_checkpoint(folder) is not None
    model = tiny_model(seed=4 if by_hand or RESTART != "0" and get_last_checkpoint(folder) else 3)
    trainer = Mortal(model, arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
    group = collectives.current()
    announce(group, "broadcast", lambda: 0)
    announce(group, "all_reduce", lambda: trainer.state.global_step)
    trainer.train(resume_from_checkpoint=by_hand)
    dp.check_replicas(model)
    ended_with = {
        "last": trainer.digest_of_last,
        "best": digest_of(model),
        "best_checkpoint": Path(trainer.state.best_model_checkpoint).name,
        "log": [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry],
        "seeds": [mindspore.get_seed(), mindspore.dataset.config.get_seed()],
    }
    (OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ended_with))
    comes_to("exit")


main()
