"""Train 250 steps in which rank 1 sleeps in the first 200: ``python paced.py``."""

import os
import time

from mindnlp.engine import Trainer

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_trainer


class Sleeps(Trainer):
    took = 0.1

    def training_step(self, model, inputs):
        if dp.get_rank() == 1 and self.state.global_step < 200:
            time.sleep(2 * self.took)  # on a slow machine, too, longer than others work
        began = time.perf_counter()
        loss = super().training_step(model, inputs)
        self.took = time.perf_counter() - began
        return loss


data = tiny_dataset(num_rows=16, batch_size=2)
tiny_trainer(os.getcwd(), dataset=data, trainer_type=Sleeps, max_steps=250, logging_steps=250).train()
