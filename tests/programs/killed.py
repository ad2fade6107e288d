"""Train, evaluating and saving on the way, and end one rank by SIGKILL; started again, go on, and be killed elsewhere.

    python killed.py OUTPUT SEED NUM_KILLS

The first NUM_KILLS starts are killed, each at a moment drawn from SEED: while a rank makes a step, saves or evaluates.
``OUTPUT/kill-<n>.json`` tells where the n-th struck. A phase that was over too soon is no hit: the next one of its kind
is aimed at. The last start comes to its end, trains once more without a stop, and leaves what both ended with in
``OUTPUT/end.rank<r>.json``.
"""

import json
import os
import random
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mindnlp.engine.utils import get_last_checkpoint

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import RemembersTheLast, evaluating_and_saving_each_step, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, SEED, NUM_KILLS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
LONGEST_DELAY = {"step": 0.04, "save": 0.012, "evaluation": 0.02}  # seconds, about as long as each takes


class Kill:
    """The moment: how often the rank enters the phase until then, and how long it is in it."""

    def __init__(self, number):
        phases = sorted(LONGEST_DELAY) * (NUM_KILLS // len(LONGEST_DELAY) + 1)
        random.Random(SEED).shuffle(phases)
        chance = random.Random(SEED + number)
        self.number, self.phase, self.rank = number, phases[number], chance.randrange(dp.get_world_size())
        self.entries_before = chance.randrange(2)
        self.delay = chance.uniform(0, LONGEST_DELAY[self.phase])

    @contextmanager
    def threatens(self, phase, step):
        if (phase, dp.get_rank()) != (self.phase, self.rank):
            yield
        elif self.entries_before:
            self.entries_before -= 1
            yield
        else:
            timer = threading.Timer(self.delay, self.strike, [step])
            timer.start()
            yield
            timer.cancel()
            self.delay /= 2  # it was over too soon

    def strike(self, step):
        where = {"phase": self.phase, "step": step, "rank": self.rank, "delay": self.delay}
        (OUTPUT / f"kill-{self.number}.json").write_text(json.dumps(where))
        os.kill(os.getpid(), signal.SIGKILL)


class Mortal(RemembersTheLast):
    def _in_danger(self, phase):
        return self.kill.threatens(phase, self.state.global_step) if self.kill else nullcontext()

    def training_step(self, *arguments):
        with self._in_danger("step"):
            return super().training_step(*arguments)

    def _save_checkpoint(self, *arguments, **keywords):
        with self._in_danger("save"):
            super()._save_checkpoint(*arguments, **keywords)

    def evaluate(self, *arguments, **keywords):
        with self._in_danger("evaluation"):
            return super().evaluate(*arguments, **keywords)


def train(folder, kill):
    folder.mkdir(exist_ok=True)
    arguments = evaluating_and_saving_each_step(folder, max_steps=20)
    is_resumed = get_last_checkpoint(folder) is not None
    model = tiny_model(seed=4 if is_resumed else 3)
    trainer = Mortal(model, arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
    trainer.kill = kill
    trainer.train(resume_from_checkpoint=is_resumed)
    dp.check_replicas(model)
    return {**trainer.ended_with(), "left": sorted(path.name for path in folder.iterdir())}


def main():
    number = len(list(OUTPUT.glob("kill-*.json")))
    ends = {"killed": train(OUTPUT / "killed", Kill(number) if number < NUM_KILLS else None)}
    ends["never_killed"] = train(OUTPUT / "never_killed", kill=None)
    (OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ends))


main()
