"""Train twice, while a signal may come: ``python preempted.py OUTPUT [UNDISTURBED]``; first in UNDISTURBED, in peace.

``SIGNALS`` lists ``call:step:rank:signal:whom``, separated by spaces: in that call of ``train()``, when so many steps
are done, the rank sends a signal, once, to itself (``whom`` is ``rank``) or to its launcher.
``OUTPUT/end.rank<r>.json`` tells what a run that came to its end ended with.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
from mindnlp.engine import Trainer

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import digest_of, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OUTPUT, *UNDISTURBED = map(Path, sys.argv[1:])
HEARD = []


class Struck(Trainer):
    call, orders = 0, ()

    def compute_loss(self, *args, **kwargs):
        for order in self.orders:
            *where, name, whom = order.split(":")
            here = [int(number) for number in where] == [self.call, self.state.global_step, dp.get_rank()]
            if here and not (OUTPUT / order).exists():
                (OUTPUT / order).touch()
                os.kill(os.getpid() if whom == "rank" else launcher(), signal.Signals[name])
                while whom == "launcher" and not HEARD:
                    time.sleep(0.01)
        return super().compute_loss(*args, **kwargs)


def launcher():
    """It may have started mpirun, which has started this process."""
    return next(p.pid for p in psutil.Process().parents() if "mindnlp_dp_plugin.cli" in p.cmdline())


def heard(signum, frame):
    HEARD.append(signum)


def train(output, orders):
    output.mkdir(exist_ok=True)
    signal.signal(signal.SIGUSR1, heard)
    model, ends = tiny_model(), []
    for call in (1, 2):
        arguments = dict(max_steps=6 * call, gradient_accumulation_steps=2, evaluation_strategy="steps", eval_steps=3)
        trainer = tiny_trainer(output / f"trainer{call}", model, shuffled(9), Struck, logging_steps=4, **arguments)
        trainer.eval_dataset, trainer.call, trainer.orders = tiny_dataset(num_rows=24), call, orders
        trainer.train(resume_from_checkpoint=True)  # as scripts say; --resume forgives that there is none at first
        assert signal.getsignal(signal.SIGUSR1) is heard and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        ends.append({"model": digest_of(model), "step": trainer.state.global_step, "eval_losses": losses})
    (output / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ends))


for folder in UNDISTURBED:
    train(folder, ())
train(OUTPUT, os.environ.get("SIGNALS", "").split())
