"""Train with checkpoints that are written while training goes on: ``python async_save.py OUTPUT``.

Leaves the checkpoints in ``OUTPUT/at_once`` and ``OUTPUT/later``, and what both ended with in
``OUTPUT/ended.rank<r>.json``.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import dataclasses
import json
import sys
from pathlib import Path

from mindnlp.engine import TrainerCallback

from tests.programs.resume_scenarios import EACH_STEP, RemembersTheLast, shuffled
from tests.programs.tiny import tiny_dataset, tiny_trainer

OUTPUT = Path(sys.argv[1])


class Looks(TrainerCallback):
    """Notes which checkpoints are whole when training goes on after a save."""

    def __init__(self, home):
        self.home, self.seen = home, []

    def on_save(self, args, state, control, **kwargs):
        self.seen.append((self.home / f"checkpoint-{state.global_step}").exists())


def train(name, is_later):
    dp.install(dataclasses.replace(dp.DataParallelConfig(), async_save=is_later))
    looks, arguments = Looks(OUTPUT / name), {**EACH_STEP, "save_total_limit": None}
    trainer = tiny_trainer(OUTPUT / name, None, shuffled(9), RemembersTheLast, [looks], **arguments)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    trainer.train()
    return {**trainer.ended_with(), "whole_at_once": looks.seen}


ends = {"at_once": train("at_once", False), "later": train("later", True)}
(OUTPUT / f"ended.rank{dp.get_rank()}.json").write_text(json.dumps(ends))
