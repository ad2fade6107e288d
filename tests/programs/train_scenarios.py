"""Train each named scenario and leave what happened in ``<output>/<scenario>.rank<r>.npz``.

    python train_scenarios.py OUTPUT EMULATED_RANKS SCENARIO[.zeroSTAGE]...

Started as ranks, EMULATED_RANKS is their number; started alone, how many ranks' batches the one process takes at once.
Models, data and optimizers are the same in both cases. Alone, MindNLP's own Trainer trains; a scenario with another
average is also trained by the plugin, in one process: ``<output>/<scenario>.alone.npz``. With a stage, ranks share out
what that stage of ZeRO says, and leave ``<output>/<scenario>.zero<stage>.rank<r>.npz``.
"""

import hashlib
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer

import mindnlp_dp_plugin
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.optim.sharded import states_of
from tests.programs.scenarios import BATCH_SIZE, RUN, SCENARIOS
from tests.programs.tiny import Losses, seed_everything, tiny_trainer


def build_model(scenario, num_ranks):
    seed_everything(3 + 10 * mindnlp_dp_plugin.get_rank())  # replicas start apart: the plugin makes them equal
    return scenario.build_model(num_ranks)


class Recorder(Losses):
    """After each step: the gradients it was made with, a digest of the parameters it led to, the loss.

    Where rows can be recognised: which were read, and how long they are.
    """

    def __init__(self):
        super().__init__()
        self.gradients, self.digests = [], []
        self.latest = np.zeros(0)
        self.sees_gradients = True  # with stage 2 of ZeRO no rank has all of them
        self.rows, self.lengths = [], []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.gradients.append(self.latest)
        digest = hashlib.sha256()
        with mindnlp_dp_plugin.gathered_parameters(model):
            for parameter in model.parameters():
                digest.update(in_float32(parameter).tobytes())
        self.digests.append(digest.hexdigest())


class RecordingTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        if "attention_mask" in inputs:
            high, low = (inputs["input_ids"].asnumpy()[:, :2].T - 4).tolist()
            self.recorder.rows += [high * 64 + low for high, low in zip(high, low)]
            self.recorder.lengths += inputs["attention_mask"].asnumpy().sum(axis=1).tolist()
        return super().compute_loss(model, inputs)

    def update_gradient_by_distributed_type(self, model):
        super().update_gradient_by_distributed_type(model)
        gradients = [p.grad for p in model.parameters() if p.requires_grad and p.grad is not None]
        if gradients and self.recorder.sees_gradients:
            self.recorder.latest = np.concatenate([in_float32(gradient).ravel() for gradient in gradients])


class MeanOfRanksTrainer(RecordingTrainer):
    """One process whose loss is the mean of the losses that ranks would have."""

    def compute_loss(self, model, inputs, return_outputs=False):
        parts = [
            {name: value[rank :: self.num_ranks] for name, value in inputs.items()} for rank in range(self.num_ranks)
        ]
        return sum(super(MeanOfRanksTrainer, self).compute_loss(model, part) for part in parts) / self.num_ranks


def in_float32(tensor):
    return tensor.astype(mindspore.float32).asnumpy().copy()


def train(name, scenario, output, num_ranks, dataset, accumulation, config, trainer_type=RecordingTrainer):
    mindnlp_dp_plugin.install(mindnlp_dp_plugin.DataParallelConfig(**config))
    settings = dict(
        optim=scenario.optimizer,
        learning_rate=1e-3 if scenario.optimizer == "adamw" else 1e-1,
        adam_epsilon=1e-4,  # else Adam turns the rounding noise of true zeros (key biases) into full steps
        lr_scheduler_type="linear",
        max_steps=scenario.num_steps,
        gradient_accumulation_steps=accumulation,
        logging_steps=1,
    )
    model, recorder = build_model(scenario, num_ranks), Recorder()
    given = output / f"{name}_trainer", model, dataset, trainer_type, [recorder]
    trainer = tiny_trainer(*given, **{**settings, **scenario.arguments})
    if scenario.own_optimizer:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        trainer.optimizer = scenario.own_optimizer(trained, lr=trainer.args.learning_rate)
    trainer.recorder, trainer.num_ranks = recorder, num_ranks
    stage = config.get("zero_stage", 0)
    recorder.sees_gradients = stage < 2
    num_bytes = count_bytes(collectives.current())
    result = trainer.train()
    del collectives.current().all_reduce
    with mindnlp_dp_plugin.gathered_parameters(model):
        parameters = np.concatenate([in_float32(parameter).ravel() for parameter in model.parameters()])
    np.savez(
        output / f"{name}.npz",
        parameters=parameters,
        gradients=np.stack(recorder.gradients),
        digests=np.array(recorder.digests),
        losses=recorder.of_steps,
        train_loss=result.training_loss,
        num_bytes=sum(num_bytes),
        state_bytes=states_of(trainer.optimizer).num_bytes if stage else 0,
        rows=recorder.rows,
        lengths=recorder.lengths,
    )


def count_bytes(group):
    """A list that grows by the size of each all-reduce."""
    sizes, all_reduce = [], group.all_reduce

    def counting(buffer):
        sizes.append(buffer.size * buffer.itemsize)
        return all_reduce(buffer)

    group.all_reduce = counting
    return sizes


def run(name, output, num_ranks):
    scenario = SCENARIOS[name.partition(".")[0]]
    if mindnlp_dp_plugin.get_world_size() > 1:
        dataset = scenario.dataset(num_ranks, BATCH_SIZE)
        here = f"{name}.rank{mindnlp_dp_plugin.get_rank()}"
        config = {**scenario.config, "zero_stage": int(name.partition(".zero")[2] or 0)}
        train(here, scenario, output, num_ranks, dataset, scenario.accumulation, config)
    else:
        dataset = scenario.dataset(num_ranks, BATCH_SIZE * num_ranks)
        trainer_type = MeanOfRanksTrainer if scenario.takes_mean_of_ranks else RecordingTrainer
        train(
            f"{name}.rank0", scenario, output, num_ranks, dataset, scenario.accumulation, scenario.config, trainer_type
        )


if __name__ == "__main__":
    host_memory.RUN = RUN
    output_folder, emulated_ranks, *names = sys.argv[1:]
    for name in names:
        run(name, Path(output_folder), int(emulated_ranks))
