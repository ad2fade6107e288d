"""What a Trainer and a script do while parameters are shared out, and behind a training, beside ``zero_stage=2``.

    python shared_parameters.py OUTPUT

Every case runs twice, and leaves in ``OUTPUT/rank<r>.json`` what each stage has made of it. The script ends with a
parameter that it has read in silence.
"""

import copy
import hashlib
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
from mindnlp_dp_plugin.fully_sharded import is_shared_out
from mindnlp_dp_plugin.optim import cut_buckets
from tests.programs.noted import refusal_of
from tests.programs.scenarios import RUN
from tests.programs.shared_llama import llama, sentences
from tests.programs.tiny import tiny_model, tiny_rows, tiny_trainer, with_lora

OUTPUT = Path(sys.argv[1])
cut_buckets.BLOCK_BYTES = 1000  # so that parameters travel in many blocks
host_memory.RUN = RUN
STAGES = (2, 3)
OUTCOMES = {}


def is_the_same_in_both_stages(function):
    """Note what ``function`` returns for each stage."""
    OUTCOMES[function.__name__] = [function(stage) for stage in STAGES]


def trainer_with(stage, model=None, dataset=None, settings=None, folder="trainer", **arguments):
    dp.install(dp.DataParallelConfig(zero_stage=stage, **(settings or {})))
    dataset = dataset or tiny_rows(48).batch(4)
    trainer = tiny_trainer(OUTPUT / folder, model or tiny_model(), dataset, **{"logging_steps": 1, **arguments})
    trainer.eval_dataset = tiny_rows(11).batch(4)  # ranks get other numbers of batches
    return trainer


def digests(model):
    """The same on all ranks, and the mean of all magnitudes for engines that round otherwise."""
    with dp.gathered_parameters(model):
        whole = [parameter.asnumpy() for parameter in model.parameters()]
        magnitude = sum(np.abs(values, dtype=np.float64).sum() for values in whole) / sum(map(np.size, whole))
        return [*(digest(parameter) for parameter in model.parameters()), magnitude]


def ended(trainer):
    """What training has led to."""
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return [*losses, *digests(trainer.model)]


# While it trains


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
    return ended(trainer_with(stage, llama(), words(*lengths), {}, max_steps=4))


@is_the_same_in_both_stages
def nothing_to_train_on_before_the_step(stage):
    lengths = [6, 3, 5, 2] + [2, 2, 4, 2] + [6, 3, 0, 0] + [5, 2, 3, 1]
    dataset = words(*lengths)
    return ended(trainer_with(stage, llama(), dataset, {}, max_steps=2, gradient_accumulation_steps=2))


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


READINGS = {
    "asnumpy": lambda model: model.classifier.weight.asnumpy(),
    "deepcopy": copy.deepcopy,
    "state_dict": lambda model: model.state_dict(),
    "save_pretrained": lambda model: model.save_pretrained(str(OUTPUT / "never")),
    "assigned": assigned,
}
OUTCOMES["readings"] = {
    name: refusal_of(trainer_with(3, callbacks=[Reads(read)]).train) for name, read in READINGS.items()
}
failed = trainer_with(3, llama(), words(*[6, 3, 5, 2] * 2), callbacks=[Reads(lambda model: model.state_dict())])
assert failed.model.config.use_cache and refusal_of(failed.train)
OUTCOMES["caches_after_a_failure"] = failed.model.config.use_cache
OUTCOMES["refusals"] = {
    "elsewhere": refusal_of(trainer_with(3, ReadsElsewhere()).train),
    "forward": refusal_of(with_a_forward_on_an_object().train),
    "elastic": refusal_of(trainer_with(3, settings={"elastic_determinism": True}).train),
}

# Behind a training


def trained(stage, *args, **arguments):
    trainer = trainer_with(stage, *args, **arguments)
    trainer.train()
    assert any(map(is_shared_out, trainer.model.parameters())) == (stage == 3)
    return trainer


def files(folder):
    """The bytes of weights and configs that rank 0 has written."""
    dp.barrier()
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in (".safetensors", ".ckpt", ".json")]
    assert names
    return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in names]


def saved(trainer, name):
    folder = OUTPUT / f"{name}_{trainer.data_parallel_config.zero_stage}"
    trainer.save_model(str(folder))
    return files(folder)


@is_the_same_in_both_stages
def written_and_predicted(stage):
    trainer = trainer_with(stage)
    end, written = ended(trainer), saved(trainer, "written")
    predictions = trainer.predict(tiny_rows(7).batch(4)).predictions
    return [*end, *written, *predictions.tolist(), trainer.evaluate()["eval_loss"], *digests(trainer.model)]


def saved_values(trainer):
    """Of a file that holds more than numbers."""
    folder = OUTPUT / f"pickled_{trainer.data_parallel_config.zero_stage}"
    trainer.save_model(str(folder))
    dp.barrier()
    again = type(trainer.model).from_pretrained(str(folder))
    return digests(again)


@is_the_same_in_both_stages
def one_batch_is_scored_behind_a_training(stage):
    trainer = trained(stage)
    predictions = trainer.predict(tiny_rows(3).batch(4)).predictions
    return [*predictions.tolist(), trainer.evaluate(tiny_rows(1).batch(4))["eval_loss"], *digests(trainer.model)]


@is_the_same_in_both_stages
def rank_0_reads_what_is_scored(stage):
    trainer = trained(stage, settings={"dispatch_batches": True}, evaluation_strategy="steps", eval_steps=2)
    predictions = trainer.predict(tiny_rows(3).batch(4)).predictions
    return [*predictions.tolist(), trainer.evaluate()["eval_loss"], *digests(trainer.model)]


@is_the_same_in_both_stages
def evaluated_and_written_without_safetensors(stage):
    trainer = trained(stage, save_safetensors=False)
    found = [trainer.evaluate()["eval_loss"], *saved_values(trainer), *digests(trainer.model)]
    trainer.args.fp16_full_eval = True
    return [*found, trainer.evaluate()["eval_loss"], *digests(trainer.model)]


@is_the_same_in_both_stages
def trained_again_from_a_checkpoint(stage):
    trainer = trained(stage, folder=f"again_{stage}", save_strategy="steps", save_steps=2)
    before = digests(trainer.model)
    trainer.train(resume_from_checkpoint=str(OUTPUT / f"again_{stage}" / "checkpoint-2"))
    assert digests(trainer.model) == before
    trainer.args.max_steps = 6
    trainer.train(resume_from_checkpoint=str(OUTPUT / f"again_{stage}" / "checkpoint-4"))
    return digests(trainer.model)


@is_the_same_in_both_stages
def trained_on_by_another_trainer(stage):
    model = trained(stage).model
    for parameter in model.bert.embeddings.parameters():
        parameter.requires_grad = False
    return digests(trained(stage, model, optim="sgd", recompute=True).model)


@is_the_same_in_both_stages
def trained_on_without_the_stage(stage):
    model = trained(stage).model
    model = trainer_with(0, model).model
    trainer = trainer_with(0, model)
    trainer.train()
    assert not any(map(is_shared_out, model.parameters()))
    return [digest(parameter) for parameter in model.parameters()]


@is_the_same_in_both_stages
def adapted(stage):
    trainer = trained(
        stage,
        with_lora(tiny_model()),
        folder=f"adapted_{stage}",
        evaluation_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        learning_rate=0.3,
        load_best_model_at_end=True,
    )
    return [saved(trainer, "adapters"), trainer.evaluate()["eval_loss"], *digests(trainer.model)]


def values(model):
    with dp.gathered_parameters(model):
        return {name: parameter.asnumpy().copy() for name, parameter in model.named_parameters()}


@is_the_same_in_both_stages
def copied(stage):
    model = trained(stage).model
    with dp.gathered_parameters(model):
        other = copy.deepcopy(model)
    assert not any(map(is_shared_out, other.parameters()))
    assert all(np.array_equal(other.state_dict()[name].asnumpy(), each) for name, each in values(model).items())
    return [*digests(trained(stage, other).model), *digests(model)]


@is_the_same_in_both_stages
def adapted_later(stage):
    """Adapters are put into a model that is shared out."""
    model = trained(stage).model
    with dp.gathered_parameters(model):
        adapted = with_lora(model)
    return digests(trained(stage, adapted).model)


@is_the_same_in_both_stages
def weights_that_were_half(stage):
    model = trainer_with(stage, tiny_model().half(), fp16=True)
    model.train()
    dtypes = {str(parameter.dtype) for parameter in model.model.parameters()}
    return [*dtypes, *digests(model.model)]


class OwnSave(Trainer):
    """Writes what it likes."""

    def _save(self, output_dir=None, state_dict=None):
        Path(output_dir).mkdir(parents=True)
        norms = {name: float(np.linalg.norm(each.asnumpy())) for name, each in self.model.state_dict().items()}
        Path(output_dir, "norms.json").write_text(json.dumps(norms))


@is_the_same_in_both_stages
def written_by_the_script(stage):
    return saved(trained(stage, trainer_type=OwnSave), "own")


@is_the_same_in_both_stages
def a_sentence(stage):
    model = trained(stage, llama(), words(*[6, 3, 5, 2] * 2), max_steps=2).model
    model.eval()
    written = model.generate(mindspore.Tensor([[1, 7, 9]]), max_new_tokens=4, do_sample=False)
    assert model.config.use_cache
    return written.asnumpy().ravel().tolist()


def in_silence(model):
    """Reads a part of a matrix, of which nobody is told at once."""
    return ops.matmul(ops.ones(2, 3), model.classifier.weight[:, :3].T[:3]).sum()


def differently(model):
    model.bert.encoder.layer[dp.get_rank() % 2](ops.ones(1, 3, 32))


shared = trained(3)
BEHIND = {
    **{name: lambda name=name: READINGS[name](shared.model) for name in READINGS if name != "assigned"},
    "in_silence": lambda: (in_silence(shared.model), shared.evaluate()),
    "then_saved": lambda: (in_silence(shared.model), shared.save_model(str(OUTPUT / "never"))),
    "differently": lambda: differently(shared.model),
}
OUTCOMES["readings_behind"] = {name: refusal_of(read) for name, read in BEHIND.items()}
OUTCOMES["never"] = (OUTPUT / "never").exists()
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(OUTCOMES))
in_silence(shared.model)
