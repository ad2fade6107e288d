"""Checkpoints, second trainings and new parameters, with each stage of ZeRO; every outcome in ``OUTPUT/rank<r>.json``.

python sharded_states.py OUTPUT [CHECKPOINTS_OF_ANOTHER_JOB]
"""

import json
import sys
from pathlib import Path

import mindspore
from mindnlp.core import nn, ops
from mindnlp.core.optim import AdamW
from mindnlp.engine import TrainerCallback

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.optim import cut_buckets
from tests.programs.noted import refusal_of
from tests.programs.scenarios import RUN
from tests.programs.tiny import tiny_model, tiny_rows, tiny_trainer, with_frozen_embeddings

OUTPUT = Path(sys.argv[1])
cut_buckets.BLOCK_BYTES = 1000  # so that parameters are gathered in many blocks
host_memory.RUN = RUN
STAGES = (0, 1, 2, 3)
OUTCOMES = {}


def digests(trainer):
    """Of what training changes; to be called on all ranks."""
    state = trainer.optimizer.state_dict()["state"]
    with dp.gathered_parameters(trainer.model):
        tensors = [*trainer.model.parameters(), *(state[key]["exp_avg_sq"] for key in sorted(state))]
        return [digest(tensor) for tensor in tensors]


def trainer_with(stage, folder="not_saved", model=None, **arguments):
    dp.install(dp.DataParallelConfig(zero_stage=stage))
    mindspore.set_seed(50 + dp.get_rank())
    dataset = tiny_rows(48, shuffle=True).batch(4)
    return tiny_trainer(OUTPUT / folder, model or tiny_model(), dataset, weight_decay=0.1, **arguments)


def is_the_same_in_every_stage(function):
    """Note what ``function`` returns for each stage."""
    OUTCOMES[function.__name__] = [function(stage) for stage in STAGES]


@is_the_same_in_every_stage
def saved(stage):
    trainer = trainer_with(stage, f"stage{stage}", save_strategy="steps", save_steps=2, max_steps=6)
    trainer.train()
    return digests(trainer)


def resumed(stage, of_stage, step, folder=OUTPUT):
    mindspore.set_seed(99)
    trainer = trainer_with(stage, model=tiny_model(seed=8), max_steps=6)
    trainer.train(resume_from_checkpoint=str(folder / f"stage{of_stage}" / f"checkpoint-{step}"))
    return digests(trainer)


if len(sys.argv) > 2:  # saved by another number of ranks, at the end of an epoch
    OUTCOMES["resumed_on_more_ranks"] = [
        resumed(stage, of_stage=1, step=6, folder=Path(sys.argv[2])) for stage in STAGES
    ]
else:
    OUTCOMES["resumed"] = {
        f"{stage} from {of_stage}": resumed(stage, of_stage, step=4)
        for stage, of_stage in ((0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 2), (3, 3))
    }


@is_the_same_in_every_stage
def trained_twice(stage):
    trainer = trainer_with(stage)
    trainer.train()
    trainer.train()
    return digests(trainer)


@is_the_same_in_every_stage
def trained_once_more_with_whole_states(stage):
    trainer = trainer_with(stage)
    trainer.train()
    dp.install(dp.DataParallelConfig())
    trainer.train()
    assert len(trainer.optimizer.state) == len(list(trainer.model.parameters()))
    return digests(trainer)


class Unfreezes(TrainerCallback):
    """Gives the optimizer the embeddings after the second step."""

    def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        if state.global_step == 2:
            parameters = list(model.bert.embeddings.parameters())
            for parameter in parameters:
                parameter.requires_grad = True
            optimizer.add_param_group({"params": parameters, "lr": 1e-2, "weight_decay": 0.0})


@is_the_same_in_every_stage
def given_new_parameters(stage):
    model = with_frozen_embeddings(tiny_model())
    trainer = trainer_with(stage, model=model, callbacks=[Unfreezes()], lr_scheduler_type="constant")
    trainer.train()
    return digests(trainer)


class Lamb(AdamW):
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                ops.assign(parameter, parameter - group["lr"] * parameter.grad / parameter.grad.norm())


def with_lamb():
    trainer = trainer_with(1)
    trainer.optimizer = Lamb(trainer.model.parameters(), lr=1e-3)
    return trainer


def with_a_step_of_its_own():
    trainer = trainer_with(2)
    trainer.training_step = trainer.training_step
    return trainer


class ClipsOnceMore(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


REFUSED = (with_lamb(), with_a_step_of_its_own(), trainer_with(2, callbacks=[ClipsOnceMore()]))
OUTCOMES["refusals"] = [(refusal_of(trainer.train), trainer.state.global_step) for trainer in REFUSED]
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(OUTCOMES))
