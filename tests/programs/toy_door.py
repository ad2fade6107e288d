"""A door around a plain loop: what ``port.py`` asks for is all that the core needs.

    python toy_door.py OUTPUT NUM_RANKS SCENARIO...

Trains scenarios of the oracle on ranks, and leaves what ``train_scenarios.py`` leaves.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import sys
from pathlib import Path

import numpy as np
from mindnlp.core import nn
from mindnlp.core.autograd import value_and_grad
from mindnlp.core.optim import SGD, AdamW

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step import Clock, Step
from tests.programs.scenarios import BATCH_SIZE, SCENARIOS
from tests.programs.tiny import seed_everything


class PlainLoop(Door):
    name, seed, utils = "PlainLoop", 42, nn.utils

    def __init__(self, model, optimizer, accumulation, steps_per_epoch):
        self.model, self.optimizer = model, optimizer
        self.accumulation = self.nominal_accumulation = self.gradient_accumulation_steps = accumulation
        self.clock = Clock(self, steps_per_epoch)
        self.num_steps = 0
        self.gradients_of = None

    def forget_parameters(self):
        self.gradients_of = None

    def train(self, batches, num_steps, rates, note):
        patches = Patches()
        self.step = Step(self, collectives.current(), dp.DataParallelConfig(), patches)
        losses = 0.0
        while self.num_steps < num_steps:
            self.clock.begin_epoch()
            for batch in self.step.announcements.read(batches.create_dict_iterator(), batches):
                with self.step.micro_step():
                    loss = self.step.training_step(batch, lambda batch=batch: self.forward_and_backward(batch))
                losses += loss.item()
                if self.clock.begins_optimizer_step and self.num_steps < num_steps:
                    gradients = [p.grad.asnumpy().ravel().copy() for p in self.model.parameters() if p.requires_grad]
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    for group in self.optimizer.param_groups:
                        group["lr"] = rates[self.num_steps]
                    self.optimizer.step()
                    self.model.zero_grad()
                    self.num_steps += 1
                    note(np.concatenate(gradients), losses)
                    losses = 0.0
        self.step.close()
        patches.undo()

    def forward_and_backward(self, batch):
        if self.gradients_of is None:
            parameters = tuple(self.optimizer.param_groups[0]["params"])
            self.gradients_of = value_and_grad(self.loss, parameters, attach_grads=True)
        loss = self.gradients_of(batch)
        self.step.finish()
        return loss / self.accumulation

    def loss(self, batch):
        return self.step.forward(lambda: self.model(**batch)["loss"])


def run(name, output, num_ranks):
    scenario = SCENARIOS[name]
    seed_everything(3 + 10 * dp.get_rank())  # replicas start apart
    model = scenario.build_model(num_ranks)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = SGD(trained, lr=1e-1) if scenario.optimizer == "sgd" else AdamW(trained, eps=1e-4, weight_decay=0.0)
    rate = 1e-1 if scenario.optimizer == "sgd" else 1e-3
    rates = [rate * (1 - step / scenario.num_steps) for step in range(scenario.num_steps)]
    batches = dp.shard(scenario.dataset(num_ranks, BATCH_SIZE), num_ranks, dp.get_rank(), seed=42)
    noted = {"gradients": [], "digests": [], "losses": []}

    def note(gradients, losses):
        parameters = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
        noted["gradients"].append(gradients)
        noted["digests"].append(hashlib.sha256(parameters).hexdigest())
        noted["losses"].append(np.mean(dp.all_gather_object(losses)))

    PlainLoop(model, optimizer, scenario.accumulation, scenario.num_batches).train(
        batches, scenario.num_steps, rates, note
    )
    parameters = np.concatenate([parameter.asnumpy().ravel() for parameter in model.parameters()])
    np.savez(output / f"{name}.rank{dp.get_rank()}.npz", parameters=parameters, **noted)


if __name__ == "__main__":
    output_folder, ranks, *names = sys.argv[1:]
    for name in names:
        run(name, Path(output_folder), int(ranks))
