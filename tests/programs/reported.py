"""What is reported of a training: losses, losses that are no numbers, operations; and an evaluation of other weights.

    python reported.py OUTPUT NUM_RANKS

Started alone, one process takes the batches of NUM_RANKS ranks at once. Leaves OUTPUT/reported.rank<r>.json.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import math
import sys
from pathlib import Path

import mindspore
from mindnlp.engine import Trainer, TrainerCallback

from tests.programs.tiny import tiny_dataset, tiny_trainer, without_dropout

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK, WORLD_SIZE = dp.get_rank(), dp.get_world_size()
NAN, INFINITY = float("nan"), float("inf")
LOSSES = [[0.7, 0.5], [0.2, NAN], [0.3, 0.9], [INFINITY, 0.1], [NAN, NAN], [0.4, 0.8], [0.6, 0.2], [0.5, NAN]]


def trainer_of(trainer_type=Trainer, callbacks=None, num_batches=4, **arguments):
    dataset = tiny_dataset(8 * NUM_RANKS * num_batches, 8 * NUM_RANKS // WORLD_SIZE)
    return tiny_trainer(OUTPUT / "trainer", without_dropout(), dataset, trainer_type, callbacks, **arguments)


class WithLosses(Trainer):
    """Trains, and reports losses that were thought out: a rank's own, and in one process their mean."""

    num_micro_steps = 0

    def training_step(self, model, inputs):
        super().training_step(model, inputs)
        losses = LOSSES[self.num_micro_steps]
        self.num_micro_steps += 1
        return mindspore.tensor(losses[RANK] if WORLD_SIZE > 1 else sum(losses) / len(losses), mindspore.float32)


def sums_at_logs(accumulation):
    trainer = trainer_of(
        WithLosses, gradient_accumulation_steps=accumulation, max_steps=len(LOSSES) // accumulation, logging_steps=3
    )
    sums = []
    trainer.log = lambda logs: sums.append(trainer._total_loss_scalar)
    return [*sums, trainer.train().training_loss]


class EndsEpochs(TrainerCallback):
    """Ends each epoch after three of its four batches."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_epoch_stop = state.global_step % 3 == 0


def loss_of_epochs_cut_short():
    return (
        trainer_of(callbacks=[EndsEpochs()], max_steps=-1, num_train_epochs=2, logging_steps=100).train().training_loss
    )


def operations():
    trainer = trainer_of()
    trainer.train()
    return trainer.state.total_flos


class SwapsWeights(TrainerCallback):
    """Before evaluations, rank 0 alone takes an average of weights that it keeps."""

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step == 2 and RANK == 0:
            bias = model.classifier.bias
            bias.assign_value(bias + 1)


def evaluation_of_other_weights():
    options = dict(evaluation_strategy="steps", eval_steps=2, logging_steps=2)
    trainer = trainer_of(callbacks=[SwapsWeights()], **options)
    trainer.eval_dataset = tiny_dataset(num_rows=24)
    if WORLD_SIZE == 1:
        return None
    try:
        trainer.train()
    except dp.DataParallelError as error:
        return str(error)


if __name__ == "__main__":
    found = {
        "sums": sums_at_logs(1),
        "sums_accumulated": sums_at_logs(2),
        "cut_short": loss_of_epochs_cut_short(),
        "operations": operations(),
        "evaluation_of_other_weights": evaluation_of_other_weights(),
    }
    assert all(map(math.isfinite, found["sums"]))
    (OUTPUT / f"reported.rank{RANK}.json").write_text(json.dumps(found))
