"""When steps of a Trainer begin and end."""

import time

from mindnlp.engine import TrainerCallback


class Clock(TrainerCallback):
    """Notes both, by ``time.perf_counter``."""

    def __init__(self):
        self.begins, self.ends = [], []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())
