"""Train, evaluating and saving on the way, while faults strike (see ``faults.py``).

    python struck.py OUTPUT MAX_STEPS [resume]

With ``resume`` it resumes by hand where an earlier run was killed. ``OUTPUT/end.rank<r>.json`` tells what a run that
came to its end ended with.
"""

import json
import sys
from pathlib import Path

from mindnlp.engine.utils import get_last_checkpoint

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from tests.programs.faults import RESTART, comes_to
from tests.programs.resume_scenarios import EACH_STEP, RemembersTheLast, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

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
    by_hand = "resume" in sys.argv and get_last_checkpoint(folder) is not None
    model = tiny_model(seed=4 if by_hand or RESTART != "0" and get_last_checkpoint(folder) else 3)
    trainer = tiny_trainer(folder, model, shuffled(9), Mortal, **EACH_STEP, max_steps=MAX_STEPS)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    group = collectives.current()
    announce(group, "broadcast", lambda: 0)
    announce(group, "all_reduce", lambda: trainer.state.global_step)
    trainer.train(resume_from_checkpoint=by_hand)
    dp.check_replicas(model)
    (OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(trainer.ended_with()))
    comes_to("exit")


main()
