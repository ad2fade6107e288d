"""What else a Trainer does while parameters are shared out, beside the same with ``zero_stage=2``.

    python shared_parameters.py OUTPUT

Every case trains twice, and leaves in ``OUTPUT/rank<r>.json`` what each stage has made of it.
"""

import copy
import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.engine import Trainer, TrainerCallback
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.optim import cut_buckets
from tests.programs.scenarios import RUN
from tests.programs.shared_llama import llama, sentences
from tests.programs.tiny import tiny_model, tiny_rows, tiny_trainer

OUTPUT = Path(sys.argv[1])
cut_buckets.BLOCK_BYTES = 1000  # so that parameters are gathered in many blocks
host_memory.RUN = RUN
STAGES = (2, 3)
DROPS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
OUTCOMES = {}


def is_the_same_in_both_stages(function):
    """Note what ``function`` returns for each stage."""
    OUTCOMES[function.__name__] = [function(stage) for stage in STAGES]


def trainer_with(stage, model=None, dataset=None, settings=None, **arguments):
    dp.install(dp.DataParallelConfig(zero_stage=stage, **(settings or {})))
    dataset = dataset or tiny_rows(48).batch(4)
    return tiny_trainer(OUTPUT / "trainer", model or tiny_model(**DROPS), dataset, logging_steps=1, **arguments)


def ended(trainer):
    """What training has led to, on all ranks the same."""
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    with dp.gathered_parameters(trainer.model):
        return [*losses, *(digest(parameter) for parameter in trainer.model.parameters())]


@is_the_same_in_both_stages
def dropout(stage):
    return ended(trainer_with(stage))


@is_the_same_in_both_stages
def mixed_precision(stage):
    return ended(trainer_with(stage, fp16=True))


@is_the_same_in_both_stages
def recomputed(stage):
    return ended(trainer_with(stage, recompute=True))


@is_the_same_in_both_stages
def clipped(stage):
    return ended(trainer_with(stage, max_grad_norm=0.01))


class Scores(TrainerCallback):
    def __init__(self):
        self.found = []

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self.found.append(metrics["eval_loss"])


@is_the_same_in_both_stages
def evaluated_with_another_number_of_batches_on_each_rank(stage):
    scores = Scores()
    trainer = trainer_with(stage, callbacks=[scores], evaluation_strategy="steps", eval_steps=2)
    trainer.eval_dataset = tiny_rows(11).batch(4)
    return [*ended(trainer), *scores.found]


@is_the_same_in_both_stages
def evaluated_by_one_rank_alone(stage):
    scores = Scores()
    trainer = trainer_with(stage, callbacks=[scores], evaluation_strategy="steps", eval_steps=2)
    trainer.eval_dataset = tiny_rows(3).batch(4)
    return [*ended(trainer), *scores.found]


@is_the_same_in_both_stages
def the_best_is_loaded(stage):
    trainer = trainer_with(
        stage,
        evaluation_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=2,
        load_best_model_at_end=True,
        learning_rate=0.3,
    )
    trainer.eval_dataset = tiny_rows(12).batch(4)
    return [trainer.state.best_metric, *ended(trainer), trainer.evaluate()["eval_loss"]]


def words(*lengths):
    return GeneratorDataset(list(sentences(lengths)), ["input_ids", "labels"], shuffle=False).batch(2)


@is_the_same_in_both_stages
def a_rank_whose_batch_has_nothing_to_train_on(stage):
    # Of each two batches, the first is rank 0's.
    lengths = [6, 3, 5, 2] + [0, 0, 4, 2] + [6, 3, 0, 0] + [5, 2, 3, 1]
    settings = {"average_over": "tokens"}
    return ended(trainer_with(stage, llama(), words(*lengths), settings, max_steps=4))


@is_the_same_in_both_stages
def nothing_to_train_on_before_the_step(stage):
    lengths = [6, 3, 5, 2] + [2, 2, 4, 2] + [6, 3, 0, 0] + [5, 2, 3, 1]
    settings = {"average_over": "tokens"}
    dataset = words(*lengths)
    return ended(trainer_with(stage, llama(), dataset, settings, max_steps=2, gradient_accumulation_steps=2))


class Halves(TrainerCallback):
    """Changes parameters between steps, and reads them."""

    def __init__(self):
        self.norms = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        with dp.gathered_parameters(model):
            weight = model.classifier.weight
            self.norms.append(float(np.linalg.norm(weight.asnumpy())))
            ops.assign(weight, weight * 0.5)


@is_the_same_in_both_stages
def parameters_are_changed_between_steps(stage):
    halves = Halves()
    return [*ended(trainer_with(stage, callbacks=[halves])), *halves.norms]


class Writes(TrainerCallback):
    """Goes on with a sentence between steps."""

    def __init__(self):
        self.words, self.caches = [], []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        with dp.gathered_parameters(model):
            model.eval()
            words = model.generate(mindspore.Tensor([[1, 7, 9]]), max_new_tokens=4, do_sample=False)
            model.train()
            self.caches.append(model.config.use_cache)
        self.words += words.asnumpy().ravel().tolist()


@is_the_same_in_both_stages
def sentences_are_written_between_steps(stage):
    writes = Writes()
    trainer = trainer_with(stage, llama(), words(*[6, 3, 5, 2] * 2), callbacks=[writes])
    return [*ended(trainer), *writes.words, *writes.caches, trainer.model.config.use_cache]


class Borrows(Trainer):
    """Its loss has a term of a layer's weight, as it is in the whole model."""

    def compute_loss(self, model, inputs, return_outputs=False):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        with dp.gathered_parameters(model):
            loss = loss + ops.matmul(outputs.logits, model.classifier.weight[:, :3].T).mean()
        return (loss, outputs) if return_outputs else loss


@is_the_same_in_both_stages
def a_loss_reads_gathered_parameters(stage):
    return ended(trainer_with(stage, trainer_type=Borrows))


class Reads(TrainerCallback):
    """Does something with parameters between steps that would read a part of them."""

    def __init__(self, read):
        self.read = read

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.read(model)


class ReadsElsewhere(nn.Module):
    """Computes with the weights of a module outside of its forward."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(96, 8), nn.Linear(8, 3)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.words(input_ids).mean(1)) + self.words.weight.sum()
        return nn.functional.cross_entropy(logits, labels), logits


class OwnForward:
    def __call__(self, *args, **kwargs):
        raise AssertionError


def assigned(model):
    model.classifier.weight.assign_value(mindspore.ops.zeros_like(model.classifier.weight))


def with_a_forward_on_an_object():
    model = tiny_model()
    model.bert.encoder.layer[1].forward = OwnForward()
    return trainer_with(3, model)


def refusal_of(trainer):
    try:
        trainer.train()
    except dp.DataParallelError as error:
        return str(error)
    return "none"


READINGS = {
    "asnumpy": lambda model: model.classifier.weight.asnumpy(),
    "deepcopy": copy.deepcopy,
    "state_dict": lambda model: model.state_dict(),
    "save_pretrained": lambda model: model.save_pretrained(str(OUTPUT / "never")),
    "assigned": assigned,
}
OUTCOMES["readings"] = {name: refusal_of(trainer_with(3, callbacks=[Reads(read)])) for name, read in READINGS.items()}
failed = trainer_with(3, llama(), words(*[6, 3, 5, 2] * 2), callbacks=[Reads(lambda model: model.state_dict())])
assert failed.model.config.use_cache and refusal_of(failed) != "none"
OUTCOMES["caches_after_a_failure"] = failed.model.config.use_cache
OUTCOMES["refusals"] = {
    "elsewhere": refusal_of(trainer_with(3, ReadsElsewhere())),
    "forward": refusal_of(with_a_forward_on_an_object()),
    "elastic": refusal_of(trainer_with(3, settings={"elastic_determinism": True})),
}
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(OUTCOMES))
