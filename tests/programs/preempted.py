"""Train twice, while a signal may come: ``python preempted.py OUTPUT``.

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
from mindnlp.engine import Trainer, TrainingArguments

import mindnlp_dp_plugin as dp
from tests.programs.resume_scenarios import digest_of, shuffled
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT = Path(sys.argv[1])
HEARD = []


class Struck(Trainer):
    call = 0

    def compute_loss(self, *args, **kwargs):
        for order in os.environ.get("SIGNALS", "").split():
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


def main():
    OUTPUT.mkdir(exist_ok=True)
    signal.signal(signal.SIGUSR1, heard)
    model, ends = tiny_model(), []
    for call in (1, 2):
        arguments = TrainingArguments(
            output_dir=str(OUTPUT / f"trainer{call}"), max_steps=6 * call, gradient_accumulation_steps=2,
            logging_steps=4, evaluation_strategy="steps", eval_steps=3, save_strategy="no",
            learning_rate=1e-3, disable_tqdm=True,
        )  # fmt: skip
        trainer = Struck(model, arguments, train_dataset=shuffled(9), eval_dataset=tiny_dataset(num_rows=24))
        trainer.call = call
        trainer.train(resume_from_checkpoint=True)  # as scripts say; --resume forgives that there is none at first
        assert signal.getsignal(signal.SIGUSR1) is heard and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        ends.append({"model": digest_of(model), "step": trainer.state.global_step, "eval_losses": losses})
    (OUTPUT / f"end.rank{dp.get_rank()}.json").write_text(json.dumps(ends))


main()
