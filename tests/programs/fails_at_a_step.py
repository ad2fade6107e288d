"""Train, and fail in the third optimizer step."""

import os

from mindnlp.engine import TrainerCallback

from tests.programs.tiny import tiny_trainer


class Fails(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise ValueError("row 17 has no text")


tiny_trainer(os.getcwd(), callbacks=[Fails()]).train()
