"""A short training for ``make slurm``: leaves a digest of its parameters, or fails in a given way on a given rank.

python slurm_job.py OUTPUT [RANK WAY]   with WAY one of exit, killed, exception, hang, wait (until OUTPUT/go_on exists)
"""

import mindnlp_dp_plugin as dp  # isort: split

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from mindnlp.engine import TrainerCallback

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.programs.tiny import tiny_trainer

OUTPUT = Path(sys.argv[1])


class Fail(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if sys.argv[2:] and state.global_step == 2:
            (OUTPUT / f"at_step_2_on_{dp.get_rank()}").touch()
            if dp.get_rank() == int(sys.argv[2]):
                if sys.argv[3] == "exit":
                    sys.exit(7)
                if sys.argv[3] == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if sys.argv[3] == "exception":
                    raise ValueError("no such label")
                while sys.argv[3] == "hang" or not (OUTPUT / "go_on").exists():
                    time.sleep(0.1)


if __name__ == "__main__":
    OUTPUT.mkdir(parents=True, exist_ok=True)
    trainer = tiny_trainer(OUTPUT, callbacks=[Fail()])
    trainer.train()
    digest = hashlib.sha256()
    for _, parameter in trainer.model.named_parameters():
        digest.update(parameter.asnumpy().tobytes())
    (OUTPUT / f"digest_{dp.get_rank()}").write_text(f"{dp.get_world_size()} {digest.hexdigest()}")
