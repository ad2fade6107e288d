"""Train each named case with ``elastic_determinism``, and leave what must not depend on the number of ranks.

    python any_number_of_ranks.py OUTPUT MICRO_BATCHES CASE[:STOP|:RESUME]...

Leaves ``OUTPUT/<case>.<ranks>.json``: a digest of parameters and optimizer states after each step, the log, metrics,
predictions and digests of the files of each checkpoint. With ``:STOP`` training ends after ``STOP_AFTER`` steps, in the
middle of an epoch; with ``:RESUME`` it goes on from there, in a copy of the folder.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core.optim import SGD
from mindnlp.transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
)
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import collectives
from tests.programs.scenarios import Momentum, WithExtraParameters, batched_and_padded, rows_of_any_length
from tests.programs.tiny import (
    SIZES,
    Digests,
    seed_everything,
    tiny_model,
    tiny_rows,
    tiny_trainer,
    with_frozen_embeddings,
    with_lora,
)

BATCH_SIZE = 3
NUM_ROWS = 25  # of which the last batches of an epoch have fewer
STOP_AFTER = 1
TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "eval_runtime")
OF_RANKS = ("training_args.bin", "record.json", "data_parallel.json")


@dataclass
class Case:
    """One training.

    Attributes:
        model: Returns it; seeds are set.
        dataset: Returns batches.
        arguments: Further TrainingArguments.
        config: Further fields of the DataParallelConfig.
        own_optimizer: What makes the one that is used in place of the Trainer's.
    """

    model: Callable = tiny_model
    dataset: Callable = lambda: tiny_rows(NUM_ROWS, shuffle=True).batch(BATCH_SIZE)
    arguments: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    own_optimizer: Callable | None = None


def by_batch():
    return tiny_rows(NUM_ROWS, shuffle=True).filter(lambda words: True, ["input_ids"]).batch(BATCH_SIZE)


def by_length():
    return batched_and_padded(rows_of_any_length(NUM_ROWS, 1), BATCH_SIZE)


def masked_words():
    """Rows have different numbers of words to guess, some none at all."""
    chance = np.random.default_rng(7)
    rows = []
    for row in range(NUM_ROWS):
        words = chance.integers(4, 96, 12).astype(np.int32)
        labels = words.copy()
        labels[chance.integers(0, 4) * (row % 5) :] = -100
        rows.append((words, labels))
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=True).batch(BATCH_SIZE)


def packed():
    """Each row holds two chats."""
    chance = np.random.default_rng(7)
    chats = [{"input_ids": chance.integers(4, 96, length).tolist()} for length in (5, 11) * NUM_ROWS]
    return dp.pack_dataset(chats, seq_length=16, batch_size=BATCH_SIZE, shuffle=True)


class OwnOrder:
    """Another order in each pass, and on each rank."""

    def __init__(self):
        self._rows = list(tiny_rows(NUM_ROWS).create_tuple_iterator(num_epochs=1, output_numpy=True))
        self._chance = np.random.default_rng(3 + dp.get_rank())

    def __iter__(self):
        return iter([tuple(self._rows[row]) for row in self._chance.permutation(NUM_ROWS)])


def dispatched():
    return GeneratorDataset(OwnOrder(), ["input_ids", "labels"], shuffle=False).batch(BATCH_SIZE)


class SomeBatchesUseExtra(WithExtraParameters):
    """One of its parameters is never used, and one with some batches only."""

    def forward(self, input_ids, labels):
        self.is_used = input_ids.asnumpy()[0, 0] % 2
        return super().forward(input_ids, labels)

    def change(self, logits):
        return logits + self.extra if self.is_used else logits


def unused():
    seed_everything(3)
    return SomeBatchesUseExtra(1)


class SomeLossesAreInfinite(WithExtraParameters):
    """Its gradients are not."""

    def forward(self, input_ids, labels):
        outputs = super().forward(input_ids, labels)
        if input_ids.asnumpy()[0, 0] % 5 == 0:
            outputs["loss"] = outputs["loss"] + float("inf")
        return outputs


def infinite():
    seed_everything(3)
    return SomeLossesAreInfinite(1)


def gpt2():
    seed_everything(3)
    sizes = dict(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=2, pad_token_id=0, num_labels=3)
    return GPT2ForSequenceClassification(GPT2Config(**sizes))


def llama():
    seed_everything(3)
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=1, max_position_embeddings=32))


def guesses_words():
    seed_everything(3)
    return BertForMaskedLM(BertConfig(**SIZES))


CASES = {
    "adamw": Case(arguments={"max_grad_norm": 0.5, "lr_scheduler_type": "cosine", "weight_decay": 0.1}),
    "sgd": Case(arguments={"optim": "sgd", "learning_rate": 0.1}),
    "momentum": Case(own_optimizer=Momentum, arguments={"optim": "sgd", "learning_rate": 1e-2}),
    "plain_sgd": Case(own_optimizer=SGD, arguments={"max_grad_norm": 0.0}),
    "fp16": Case(arguments={"fp16": True}),
    "overflows": Case(arguments={"fp16": True}, config={"fp16_initial_scale": 2.0**40}),
    "float16": Case(model=lambda: tiny_model().to(dtype=mindspore.float16), arguments={"optim": "sgd"}),
    "lora": Case(model=lambda: with_lora(tiny_model(), 0.1)),
    "frozen": Case(model=lambda: with_frozen_embeddings(tiny_model())),
    "unused": Case(model=unused),
    "gpt2": Case(model=gpt2),
    "zero1": Case(config={"zero_stage": 1}),
    "zero2": Case(config={"zero_stage": 2, "bucket_cap_mb": 0.01}),
    # The Trainer takes labels out of a batch, of which the last is computed several times.
    "by_batch": Case(dataset=by_batch, arguments={"label_smoothing_factor": 0.1}),
    "by_length": Case(dataset=by_length, arguments={"group_by_length": True}),
    "logged": Case(arguments={"logging_steps": 1}),  # in the step that is saved, too
    "labels": Case(model=guesses_words, dataset=masked_words),
    "labels_zero2": Case(model=guesses_words, dataset=masked_words, config={"zero_stage": 2}),
    "packed": Case(model=llama, dataset=packed),
    "dispatched": Case(dataset=dispatched, config={"dispatch_batches": True}),
    "ranks": Case(config={"average_over": "ranks"}),
    "noise": Case(arguments={"neftune_noise_alpha": 5.0}),
    "many_buckets": Case(config={"bucket_cap_mb": 0.01}),
    "infinite": Case(model=infinite),
    "best": Case(arguments={"load_best_model_at_end": True, "save_strategy": "epoch", "learning_rate": 3e-2}),
    "part_of_an_epoch": Case(arguments={"num_train_epochs": 1.5}),
    "max_steps": Case(arguments={"max_steps": 7}),
    "in_the_background": Case(config={"async_save": True, "check_replicas_every": 1}),
    "bucket_per_parameter": Case(config={"bucket_cap_mb": 0}),
}


class Notes(Digests):
    """A digest after each step; ends training after some, if asked to."""

    stop_after = None

    def on_step_end(self, args, state, control, model=None, **kwargs):
        super().on_step_end(args, state, control, model)
        if state.global_step == self.stop_after:
            control.should_save = control.should_training_stop = True


def digests_of_files(folder):
    return {
        f"{checkpoint.name}/{file.relative_to(checkpoint)}": hashlib.sha256(content_of(file)).hexdigest()
        for checkpoint in sorted(folder.glob("checkpoint-*"))
        for file in sorted(checkpoint.rglob("*"))
        if file.is_file() and file.name not in OF_RANKS
    }


def content_of(file):
    """Without times and folders, which differ from run to run."""
    if file.name != "trainer_state.json":
        return file.read_bytes()
    state = json.loads(file.read_text())
    state["log_history"] = [without_times(entry) for entry in state["log_history"]]
    state.pop("best_model_checkpoint")
    state.pop("stateful_callbacks", None)
    return json.dumps(state, sort_keys=True).encode()


def without_times(entry):
    return {name: value for name, value in entry.items() if not any(name.endswith(time[5:]) for time in TIMES)}


def train(name, output, micro_batches, ending):
    case, ranks = CASES[name], dp.get_world_size()
    accumulation = micro_batches // ranks
    dp.install(dp.DataParallelConfig(elastic_determinism=True, **case.config))
    folder = output / {"STOP": f"{name}.stopped", "RESUME": f"{name}.resumed.{ranks}"}.get(ending, f"{name}.{ranks}")
    if ending == "RESUME" and dp.is_main_process():
        shutil.copytree(output / f"{name}.stopped", folder)
    dp.barrier()
    settings = dict(max_steps=-1, num_train_epochs=2, save_strategy="steps", save_steps=2, evaluation_strategy="epoch")
    settings |= dict(per_device_train_batch_size=BATCH_SIZE, gradient_accumulation_steps=accumulation)
    settings |= {"include_num_input_tokens_seen": True, **case.arguments}
    model, notes = case.model(), Notes()
    notes.stop_after = STOP_AFTER if ending == "STOP" else None
    trainer = tiny_trainer(folder, model, case.dataset(), callbacks=[notes], **settings)
    trainer.eval_dataset = case.dataset()
    if case.own_optimizer:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        trainer.optimizer = case.own_optimizer(trained, lr=trainer.args.learning_rate)
    sent = count_bytes(collectives.current())
    result = trainer.train(resume_from_checkpoint=True if ending == "RESUME" else None)
    scores = trainer.evaluate()
    if dp.is_main_process():
        left = {
            "digests": notes.found,
            "log": [without_times(entry) for entry in trainer.state.log_history],
            "training_loss": result.training_loss,
            "scores": without_times(scores),
            "files": digests_of_files(folder),
            "tokens": trainer.state.num_input_tokens_seen,
            "flos": trainer.state.total_flos,
        }
        (output / f"{name}{f'.{ending}' if ending else ''}.{ranks}.json").write_text(json.dumps(left))
        (output / f"{name}.{ranks}.bytes").write_text(json.dumps(sum(sent)))


def count_bytes(group):
    """A list that grows by the bytes of gradients that this rank gives to each collective."""
    sizes = []
    for name in ("all_reduce", "reduce_scatter", "all_gather"):
        stock = getattr(type(group), name).__get__(group)

        def counting(buffer, *rest, stock=stock):
            sizes.append(buffer.size * buffer.itemsize)
            return stock(buffer, *rest)

        setattr(group, name, counting)
    return sizes


if __name__ == "__main__":
    output_folder, number, *names = sys.argv[1:]
    for name in names:
        case_name, _, its_ending = name.partition(":")
        train(case_name, Path(output_folder), int(number), its_ending)
