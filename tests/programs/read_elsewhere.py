"""Parameters that are shared out, read in ways, at places and at steps that are drawn.

    python read_elsewhere.py OUTPUT NUM_DRAWS

Leaves in ``OUTPUT/rank<r>.json`` what each draw was, what training said, and after how many steps: "memory", and
"losses" of one draw that is read in each step, as if the machine did not tell what was read.
"""

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.engine import Trainer, TrainerCallback

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.fully_sharded import stand_ins
from tests.programs.noted import refusal_of
from tests.programs.tiny import tiny_model, tiny_rows, tiny_trainer

OUTPUT, NUM_DRAWS = Path(sys.argv[1]), int(sys.argv[2])
STEPS = 4
READS = {
    "a slice's .T": lambda weight: ops.matmul(ops.ones(2, 3), weight[:, :3].T[:3]).sum(),
    "a row": lambda weight: weight[1].sum(),
    "the last element": lambda weight: weight[-1, -1] * 2,
    "a view": lambda weight: weight.view(-1).max(),
    "rows by number": lambda weight: weight[mindspore.Tensor([0, 1])].sum(),
    "an embedding": lambda weight: nn.functional.embedding(mindspore.Tensor([[0, 1]]), weight).mean(),
    "a linear layer": lambda weight: nn.functional.linear(ops.ones(1, weight.shape[1]), weight).mean(),
    "a square": lambda weight: (weight * weight).sum(),
    "signs": lambda weight: (weight > 0).astype(mindspore.float32).sum(),
    "a rectifier": lambda weight: ops.relu(weight).sum(),
    "a place": lambda weight: ops.argmax(weight.reshape(-1), 0).astype(mindspore.float32),
    "without what is no number": lambda weight: ops.where(weight == weight, weight, ops.zeros_like(weight)).sum(),
    "another dtype": lambda weight: weight.astype(mindspore.float16).sum().astype(mindspore.float32),
    "joined": lambda weight: ops.cat([weight, weight]).mean(),
    "MindSpore's own operator": lambda weight: mindspore.ops.ReduceMax()(weight),
    "its memory": lambda weight: mindspore.Tensor(np.abs(type(weight).asnumpy(weight)).sum()),
    "written to": lambda weight: mindspore.ops.assign(weight, mindspore.ops.ones_like(weight)).sum(),
}


class Training(Trainer):
    """Calls ``read`` with a parameter at one place of one step."""

    def prepare(self, read, place, step, name):
        self.read, self.place, self.step = read, place, step
        self.weight = dict(self.model.named_parameters())[name]
        self.add_callback(Between(self))
        if place == "within another module":
            self.model.dropout.register_forward_pre_hook(lambda *_: (self.at(place), None)[1])
        return self

    def at(self, place):
        """What was read, or 0."""
        is_now = place == self.place and self.state.global_step == self.step
        return self.read(self.weight) if is_now else mindspore.Tensor(0.0)

    def compute_loss(self, model, inputs, return_outputs=False):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        loss = loss + self.at("in the loss").astype(mindspore.float32)
        self.at("beside the loss")
        if self.place == "in a gradient's hook" and self.state.global_step == self.step:
            loss = loss + Follows.of(loss, self)
        return (loss, outputs) if return_outputs else loss


class Follows:
    """0, whose gradient is asked for in backward."""

    @staticmethod
    def of(loss, training):
        zero = loss * 0
        zero.register_hook(lambda gradient: (training.at("in a gradient's hook"), gradient)[1])
        return zero


class Between(TrainerCallback):
    def __init__(self, training):
        self.training = training

    def on_step_begin(self, *args, **kwargs):
        self.training.at("before a step")

    def on_step_end(self, args, state, *rest, **kwargs):
        state.global_step -= 1  # the step that has ended
        try:
            self.training.at("behind a step")
        finally:
            state.global_step += 1


PLACES = (
    *("in the loss", "beside the loss", "within another module"),
    *("in a gradient's hook", "before a step", "behind a step"),
)


def outcome(read, place, step, name):
    dp.install(dp.DataParallelConfig(zero_stage=3))
    rows = tiny_rows(4 * STEPS * dp.get_world_size()).batch(4)
    training = tiny_trainer(OUTPUT / "trainer", tiny_model(), rows, Training, max_steps=STEPS)
    training.prepare(READS[read], place, step, name)
    said = refusal_of(training.train)
    return {"read": read, "place": place, "step": step, "name": name, "said": said, "after": training.state.global_step}


def draws():
    """Ways to read, each as often as any other, and places; the same on all ranks."""
    chance = np.random.default_rng(61)
    names = [name for name, parameter in tiny_model().named_parameters() if parameter.ndim == 2]
    ways = [way for _ in range(-(-NUM_DRAWS // len(READS))) for way in chance.permutation(list(READS))][:NUM_DRAWS]
    places = [place for _ in range(-(-NUM_DRAWS // len(PLACES))) for place in chance.permutation(PLACES)]
    return [
        (str(way), str(place), int(chance.integers(STEPS)), str(chance.choice(names)))
        for way, place in zip(ways, places)
    ]


def tells_nothing(named):
    raise OSError


if __name__ == "__main__":
    found = {"memory": [outcome(*draw) for draw in draws()]}
    stand_ins.Untouched = tells_nothing
    found["losses"] = [outcome("a slice's .T", "in the loss", step, "classifier.weight") for step in range(STEPS)]
    (OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
