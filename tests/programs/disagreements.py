"""Ranks that do not do the same: nobody comes to help a collective, and the watchdog is to end the job.

    python disagreements.py OUTPUT DISAGREEMENT TIMEOUT

``OUTPUT/parted_at`` holds the time at which rank 1 went its own way.
"""

import sys
import time
from pathlib import Path

from mindnlp.engine import TrainerCallback

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_trainer

OUTPUT = Path(sys.argv[1])
RANK = dp.get_rank()
PARTS_AT_STEP = 2


def part():
    (OUTPUT / "parted_at").write_text(str(time.time()))


class OnRank1(TrainerCallback):
    def __init__(self, do):
        self._do = do

    def on_step_end(self, args, state, control, **kwargs):
        if RANK == 1 and state.global_step == PARTS_AT_STEP:
            part()
            self._do(control)


def more_steps_on_rank_0():
    options = dict(
        max_steps=PARTS_AT_STEP + 1 - RANK, lr_scheduler_type="constant"
    )  # another rate would be told sooner
    tiny_trainer(OUTPUT, callbacks=[OnRank1(lambda control: None)], **options).train()


def evaluation_on_rank_0():
    trainer = tiny_trainer(OUTPUT)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    trainer.train()
    part()
    if dp.is_main_process():
        trainer.evaluate()


def evaluation_in_a_callback_of_rank_0():
    class Evaluates(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == PARTS_AT_STEP and RANK == 0:
                part()
                trainer.evaluate()

    trainer = tiny_trainer(OUTPUT, callbacks=[Evaluates()], logging_steps=PARTS_AT_STEP)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    trainer.train()


def exchange_of_its_own_on_rank_0():
    class Exchanges(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == PARTS_AT_STEP and RANK == 0:
                part()
                print("NOBODY NOTICED", dp.all_gather_object(123.0))

    tiny_trainer(OUTPUT, callbacks=[Exchanges()], logging_steps=PARTS_AT_STEP).train()


def exception_that_rank_1_catches():
    def fail(control):
        raise ArithmeticError("of one rank")

    try:
        tiny_trainer(OUTPUT, callbacks=[OnRank1(fail)], logging_steps=PARTS_AT_STEP).train()
    except ArithmeticError:
        dp.all_gather_object("what now?")


def early_break_on_rank_1():
    def stop(control):
        control.should_training_stop = True

    tiny_trainer(OUTPUT, callbacks=[OnRank1(stop)]).train()


def early_exit_of_rank_1():
    tiny_trainer(OUTPUT, callbacks=[OnRank1(lambda control: sys.exit(0))]).train()


def rank_1_sleeps():
    tiny_trainer(OUTPUT, callbacks=[OnRank1(lambda control: time.sleep(600))]).train()


if __name__ == "__main__":
    dp.barrier()  # imports may take one rank longer than the timeout
    dp.install(dp.DataParallelConfig(timeout=float(sys.argv[3])))
    globals()[sys.argv[2]]()
    print("NOBODY NOTICED")
