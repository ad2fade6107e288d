"""Train each scenario without a stop, then once more from each of its checkpoints, and leave what both ended with.

    python resume_scenarios.py OUTPUT

Leaves ``OUTPUT/<scenario>.json``: for ``whole`` and for each checkpoint, what each rank ended with.
"""

import hashlib
import json
import random
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn
from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainerCallback
from mindnlp.peft import PeftModel

import mindnlp_dp_plugin as dp
from tests.programs.adversarial import FGMTrainer, PGDTrainer
from tests.programs.tiny import of_many_lengths, tiny_dataset, tiny_model, tiny_rows, tiny_trainer, with_lora

ROWS_PER_BATCH = 4


class DropsLayersOnTheHost(nn.Module):
    """A classifier whose forward draws from NumPy and Python, as LayerDrop does; it notes what dropout left out."""

    def __init__(self):
        super().__init__()
        self.classifier = tiny_model()

    def forward(self, input_ids, labels):
        outputs = self.classifier(input_ids=input_ids, labels=labels)
        self.dropped = np.flatnonzero(mindspore.ops.dropout(mindspore.ops.ones(64)).asnumpy() == 0).tolist()
        return {"loss": outputs.loss * (1 + np.random.rand() + random.random()), "logits": outputs.logits}


class NormalizesBatches(nn.Module):
    """A classifier with running statistics, which its forward reads, too: each rank has seen other rows."""

    def __init__(self):
        super().__init__()
        self.classifier = tiny_model()
        self.normalize = nn.BatchNorm1d(3)

    def forward(self, input_ids, labels):
        logits = self.normalize(self.classifier(input_ids=input_ids).logits) + self.normalize.running_mean
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def shuffled_rows(num_micro_steps):
    return tiny_rows(num_micro_steps * ROWS_PER_BATCH * 2, shuffle=True)


def shuffled(num_micro_steps):
    """As many micro-steps an epoch on 2 ranks, of rows in a new order each epoch."""
    return shuffled_rows(num_micro_steps).batch(ROWS_PER_BATCH)


def filtered(num_micro_steps):
    """Dealt out by batch."""
    return shuffled_rows(num_micro_steps).filter(lambda ids: True, ["input_ids"]).batch(ROWS_PER_BATCH)


def grouped():
    return of_many_lengths(8 * ROWS_PER_BATCH * 2, ROWS_PER_BATCH)


class StopsWhenEvaluated(TrainerCallback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_evaluate(self, args, state, control, **kwargs):
        control.should_training_stop = state.epoch >= self.epoch


SCENARIOS = {
    "another_seed": dict(
        num_train_epochs=2, save_strategy="no", max_grad_norm=0.1, dataset=lambda: shuffled(6), seed=7
    ),
    "two_epochs": dict(num_train_epochs=2, save_steps=2, max_grad_norm=0.1, dataset=lambda: shuffled(6)),
    # 10 micro-steps an epoch: the third step of an accumulation of 4 spans two epochs.
    "accumulated": dict(max_steps=5, gradient_accumulation_steps=4, dataset=lambda: shuffled(10)),
    "accumulated_saved_at_epoch_ends": dict(
        max_steps=7,
        gradient_accumulation_steps=4,
        save_strategy="epoch",
        evaluation_strategy="epoch",
        lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs={"patience": 0, "mode": "max"},
        metric_for_best_model="loss",
        dataset=lambda: shuffled(10),
    ),
    # Saved before what the epoch ends with; training ends within one.
    "evaluated_at_epoch_ends": dict(
        max_steps=5,
        evaluation_strategy="epoch",
        logging_strategy="epoch",
        dataset=lambda: shuffled(3),
        callback=dp.TensorBoardCallback,
    ),
    "stops_at_an_epochs_end": dict(
        max_steps=9,
        evaluation_strategy="epoch",
        dataset=lambda: shuffled(3),
        callback=lambda: StopsWhenEvaluated(epoch=2),
    ),
    "by_batch": dict(max_steps=6, save_steps=2, dataset=lambda: filtered(3)),
    "grouped_by_length": dict(max_steps=12, save_steps=3, group_by_length=True, dataset=grouped),
    "host_random": dict(max_steps=3, dataset=lambda: shuffled(3), model=DropsLayersOnTheHost),
    "stops_early": dict(
        max_steps=9,
        evaluation_strategy="steps",
        eval_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,  # it falls, so the patience ends after a few steps
        dataset=lambda: shuffled(3),
        patience=3,
    ),
    # 2 micro-steps an epoch: steps at the end of each.
    "short_epochs": dict(max_steps=6, gradient_accumulation_steps=4, dataset=lambda: shuffled(2)),
    "running_mean": dict(max_steps=5, save_steps=2, dataset=lambda: shuffled(3), model=NormalizesBatches),
    "adapter": dict(
        max_steps=5,
        learning_rate=0.03,
        evaluation_strategy="steps",
        eval_steps=1,
        save_total_limit=3,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,  # so that the best is not the last
        dataset=lambda: shuffled(3),
        model=lambda: with_lora(tiny_model(), 0.1),
    ),
    "sgd": dict(max_steps=4, save_steps=2, dataset=lambda: shuffled(5), optim="sgd", learning_rate=0.1),
}


def digest_of(model):
    return hashlib.sha256(b"".join(tensor.asnumpy().tobytes() for tensor in model.state_dict().values())).hexdigest()


# By which the best model is not the last.
EACH_STEP = dict(
    gradient_accumulation_steps=2, evaluation_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1,
    save_total_limit=2, load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=True,
)  # fmt: skip


class RemembersTheLast(Trainer):
    digest_of_last = None

    def ended_with(self):
        return {
            "last": self.digest_of_last,
            "best": digest_of(self.model),
            "best_checkpoint": Path(self.state.best_model_checkpoint).name,
            "log": [entry["eval_loss"] for entry in self.state.log_history if "eval_loss" in entry],
            "seeds": [mindspore.get_seed(), mindspore.dataset.config.get_seed()],
        }

    def _load_best_model(self):
        self.digest_of_last = digest_of(self.model)
        super()._load_best_model()


class FGM(FGMTrainer, RemembersTheLast):
    pass


class PGD(PGDTrainer, RemembersTheLast):
    pass


SCENARIOS |= {
    "fast_gradient_method": dict(
        max_steps=3, gradient_accumulation_steps=2, dataset=lambda: shuffled(3), trainer_type=FGM
    ),
    "projected_gradient_descent": dict(max_steps=3, dataset=lambda: shuffled(3), trainer_type=PGD),
}


def predicts_the_same_when_loaded(model, folder):
    """Whether an adapter that was saved in ``folder``, put on the model it adapts, makes ``model`` of it."""
    loaded, ids = PeftModel.from_pretrained(tiny_model(), folder), mindspore.ops.ones((2, 12), mindspore.int32)
    logits = [each.set_train(False)(input_ids=ids).logits.asnumpy() for each in (model, loaded)]
    return np.array_equal(*logits)


def ended_with(trainer, result):
    state = trainer.state
    return {
        "parameters": digest_of(trainer.model),
        "last_parameters": trainer.digest_of_last,
        "dropped": getattr(trainer.model, "dropped", None),
        "step": state.global_step,
        "epoch": state.epoch,
        "loss": result.training_loss,
        "evaluations": [(entry["step"], entry["eval_loss"]) for entry in state.log_history if "eval_loss" in entry],
        "losses": [entry["loss"] for entry in state.log_history if "loss" in entry],
        "learning_rates": [entry["learning_rate"] for entry in state.log_history if "learning_rate" in entry][-1:],
    }


def train(
    output,
    dataset,
    model=tiny_model,
    resume=None,
    patience=None,
    callback=None,
    trainer_type=RemembersTheLast,
    **changes,
):
    changes = {"save_strategy": "steps", "save_steps": 1, "logging_steps": 3, "max_steps": -1, **changes}
    network = model()
    if resume:  # nothing of what is in memory may matter
        mindspore.set_seed(100 + dp.get_rank())
        network = model()
    trainer = tiny_trainer(output, network, dataset(), trainer_type, **changes)
    trainer.eval_dataset = tiny_dataset(num_rows=8)
    if patience:
        trainer.add_callback(EarlyStoppingCallback(patience))
    if callback:
        trainer.add_callback(callback())
    np.random.seed(17 + dp.get_rank())
    random.seed(17 + dp.get_rank())
    if resume:
        np.random.seed(99)
        random.seed(99)
    result = trainer.train(resume_from_checkpoint=resume)
    dp.check_replicas(trainer.model)
    if isinstance(network, PeftModel) and dp.get_world_size() > 1:  # alone, MindNLP saves the whole model
        trainer.save_model(f"{output}_adapter")
        dp.barrier()
        assert predicts_the_same_when_loaded(network, f"{output}_adapter")
    return ended_with(trainer, result)


def run(output, name, scenario):
    whole = output / name
    ends = {"whole": train(whole, **scenario)}
    for folder in sorted(whole.glob("checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1])):
        ends[folder.name] = train(output / f"{name}_resumed", resume=str(folder), **scenario)
    of_ranks = dp.all_gather_object(ends)
    if dp.is_main_process():
        (output / f"{name}.json").write_text(json.dumps(of_ranks))


if __name__ == "__main__":
    for name in sys.argv[2:] or SCENARIOS:
        run(Path(sys.argv[1]), name, SCENARIOS[name])
