"""Train 100 steps in which rank 1 sleeps in the first 50: ``python paced.py``."""

import os
import time

from mindnlp.engine import Trainer

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_trainer

LATE_S = 0.1


class Sleeps(Trainer):
    def training_step(self, model, inputs):
        if dp.get_rank() == 1 and self.state.global_step < 50:
            time.sleep(LATE_S)
        return super().training_step(model, inputs)


data = tiny_dataset(num_rows=16, batch_size=2)
tiny_trainer(os.getcwd(), dataset=data, trainer_type=Sleeps, max_steps=100, logging_steps=100).train()
