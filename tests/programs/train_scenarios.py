"""Train each named scenario and leave what happened in ``<output>/<scenario>.rank<r>.npz``.

    python train_scenarios.py OUTPUT EMULATED_RANKS SCENARIO...

Started as ranks, EMULATED_RANKS is their number; started alone, how many ranks' batches the one process takes at once.
Models, data and optimizers are the same in both cases. Alone, MindNLP's own Trainer trains; a scenario with another
average is also trained by the plugin, in one process: ``<output>/<scenario>.alone.npz``.
"""

import hashlib
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.core.optim import SGD
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindnlp.transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin
from mindnlp_dp_plugin import collectives
from tests.programs.scenarios import SCENARIOS

BATCH_SIZE = 8
SEQUENCE_LENGTH = 12
NUM_MISSING = 5  # rows of the last batch, where batches are uneven
SIZES = dict(
    vocab_size=96,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    num_labels=3,
)


class WithExtraParameters(nn.Module):
    """A classifier with one parameter nobody uses, or one that only rank 1's rows use, or weights used twice."""

    def __init__(self, classifier, change, num_ranks):
        super().__init__()
        self.classifier = classifier
        self.extra = nn.Parameter(ops.zeros(SIZES["num_labels"]))
        self.mixer = nn.Linear(SIZES["num_labels"], SIZES["num_labels"])
        self.mixer_again = self.mixer
        self.change = change
        self.num_ranks = num_ranks

    def forward(self, input_ids, labels):
        logits = self.classifier(input_ids=input_ids).logits
        if self.change == "used_by_one_rank":
            if mindnlp_dp_plugin.get_world_size() == 1:
                belongs_to_rank_1 = np.arange(len(labels)) % self.num_ranks == 1
                logits = logits + mindspore.Tensor(belongs_to_rank_1[:, None].astype(np.float32)) * self.extra
            elif mindnlp_dp_plugin.get_rank() == 1:
                logits = logits + self.extra
        if self.change == "tied_weights":
            logits = logits + self.mixer_again(ops.tanh(self.mixer(logits)))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class WithHalfPrecisionWeights(nn.Module):
    """A float32 classifier with LayerNorms in front of float16 and bfloat16 weights.

    The bfloat16 ones are only stored so: MindSpore has no operators for bfloat16 on CPU.
    """

    def __init__(self, classifier):
        super().__init__()
        self.classifier = classifier
        num_labels = SIZES["num_labels"]
        self.in_float16 = nn.Parameter(ops.randn(num_labels, num_labels).astype(mindspore.float16))
        self.in_bfloat16 = nn.Parameter(ops.randn(num_labels, num_labels).astype(mindspore.bfloat16))

    def forward(self, input_ids, labels):
        logits = self.classifier(input_ids=input_ids).logits
        logits = ops.tanh(ops.matmul(logits.astype(mindspore.float16), self.in_float16)).astype(mindspore.float32)
        logits = ops.matmul(logits, self.in_bfloat16.astype(mindspore.float32))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class SGDThroughFloat32(SGD):
    """MindNLP's SGD does not take bfloat16 on CPU."""

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                values = parameter.astype(mindspore.float32) - group["lr"] * parameter.grad.astype(mindspore.float32)
                parameter.assign_value(values.astype(parameter.dtype))


def build_model(scenario, num_ranks):
    seed = 3 + 10 * mindnlp_dp_plugin.get_rank()  # replicas start apart: the plugin makes them equal
    np.random.seed(seed)
    mindspore.set_seed(seed)
    models = {
        "bert": BertForSequenceClassification,
        "token_classifier": BertForTokenClassification,
        "masked_lm": BertForMaskedLM,
    }
    if scenario.model == "roberta":
        model = RobertaForSequenceClassification(RobertaConfig(pad_token_id=1, **SIZES))
    else:
        model = models[scenario.model](BertConfig(**SIZES))
    if scenario.change in ("unused_parameter", "used_by_one_rank", "tied_weights"):
        model = WithExtraParameters(model, scenario.change, num_ranks)
    if scenario.change == "frozen_embeddings":
        for parameter in model.bert.embeddings.parameters():
            parameter.requires_grad = False
    if scenario.change == "lora":
        model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.0))
    if scenario.change == "float16":
        model = model.to(dtype=mindspore.float16)
        if (
            mindnlp_dp_plugin.get_world_size() == 1
        ):  # one process with all rows would lose gradients of a row to float16's smallest numbers
            model = model.to(dtype=mindspore.float32)
    if scenario.change == "half_precision_weights":
        model = WithHalfPrecisionWeights(model)
    return model


def build_rows(scenario, num_ranks):
    generator = np.random.default_rng(7)
    num_rows = scenario.num_batches * BATCH_SIZE * num_ranks
    has_token_labels = scenario.model in ("token_classifier", "masked_lm")
    rows = []
    for row in range(num_rows):
        words = generator.integers(4, SIZES["vocab_size"], SEQUENCE_LENGTH).astype(np.int32)
        labels = np.int32(generator.integers(3))
        if has_token_labels:
            # Rows of other ranks and other micro-steps have other numbers of labels.
            rank, micro_step = row % num_ranks, row // (BATCH_SIZE * num_ranks)
            labels = generator.integers(3, size=SEQUENCE_LENGTH).astype(np.int32)
            labels[1 + (rank + 2 * micro_step) % 5 :] = -100
            if scenario.change == "batch_without_tokens" and row < BATCH_SIZE * num_ranks and row % num_ranks == 0:
                labels[:] = -100
        if scenario.change == "grouped_by_length":
            words = words[: generator.integers(3, SEQUENCE_LENGTH + 1)]
            words[:2] = 4 + np.array(divmod(row, 64))  # so that it can be recognised
            rows.append((words, np.ones_like(words), labels))
            continue
        rows.append((words, labels))
    return rows[: num_rows - NUM_MISSING] if scenario.change == "uneven_batches" else rows


def build_dataset(scenario, num_ranks, batch_size):
    if scenario.change == "grouped_by_length":
        dataset = GeneratorDataset(build_rows(scenario, num_ranks), ["input_ids", "attention_mask", "labels"])
        padding = mindnlp_dp_plugin.DynamicPadding({"input_ids": 0, "attention_mask": 0}, pad_to_multiple_of=4)
        return dataset.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)
    dataset = GeneratorDataset(build_rows(scenario, num_ranks), ["input_ids", "labels"], shuffle=False)
    if scenario.change == "uneven_batches":
        dataset = dataset.filter(lambda words: True, ["input_ids"])  # dealt out by batch, the last one as it is
    return dataset.batch(batch_size)


class StepByStep:
    """All rows that ranks train on in an optimizer step, as one batch: what the Trainer reads of a data set."""

    def __init__(self, scenario, num_ranks):
        rows = build_rows(scenario, num_ranks)
        self.batches, rows_of_step, num_micro_steps = [], [], 0
        while len(self.batches) < scenario.num_steps:
            for micro_step in range(scenario.num_batches):
                begin = micro_step * BATCH_SIZE * num_ranks
                rows_of_step += rows[begin : begin + BATCH_SIZE * num_ranks]
                num_micro_steps += 1
                ends_short_epoch = scenario.num_batches == micro_step + 1 <= scenario.accumulation
                if num_micro_steps % scenario.accumulation == 0 or ends_short_epoch:
                    self.batches.append([mindspore.Tensor(np.stack(column)) for column in zip(*rows_of_step)])
                    rows_of_step = []

    def __len__(self):
        return len(self.batches)

    get_dataset_size = __len__

    def get_batch_size(self):
        return BATCH_SIZE

    def create_dict_iterator(self):
        return ({"input_ids": words, "labels": labels} for words, labels in self.batches)


class Recorder(TrainerCallback):
    """After each step: the gradients it was made with, a digest of the parameters it led to, the loss logged.

    Where rows can be recognised: which were read, and how long they are.
    """

    def __init__(self):
        self.gradients, self.digests, self.loss_sums = [], [], []
        self.rows, self.lengths = [], []

    def on_log(self, args, state, control, **kwargs):
        if len(self.loss_sums) < state.global_step:
            self.loss_sums.append(self.trainer._total_loss_scalar)  # the log itself is rounded to four digits

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.gradients.append(self.latest)
        digest = hashlib.sha256()
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
        if gradients:
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
    arguments = TrainingArguments(
        output_dir=str(output / f"{name}_trainer"),
        optim=scenario.optimizer,
        learning_rate=1e-3 if scenario.optimizer == "adamw" else 1e-1,
        adam_epsilon=1e-4,  # else Adam turns the rounding noise of true zeros (key biases) into full steps
        lr_scheduler_type="linear",
        max_grad_norm=0.0 if scenario.change == "half_precision_weights" else 1.0,  # no norm of bfloat16 on CPU
        max_steps=scenario.num_steps,
        gradient_accumulation_steps=accumulation,
        label_smoothing_factor=scenario.label_smoothing,
        group_by_length=scenario.change == "grouped_by_length",
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )
    model = build_model(scenario, num_ranks)
    recorder = Recorder()
    trainer = trainer_type(model=model, args=arguments, train_dataset=dataset, callbacks=[recorder])
    if isinstance(dataset, StepByStep):
        trainer.get_train_dataset = lambda: dataset
    if scenario.change == "half_precision_weights":
        trainer.optimizer = SGDThroughFloat32(model.parameters(), lr=arguments.learning_rate)
    trainer.recorder, trainer.num_ranks, recorder.trainer = recorder, num_ranks, trainer
    num_bytes = count_bytes(collectives.current())
    result = trainer.train()
    del collectives.current().all_reduce
    np.savez(
        output / f"{name}.npz",
        parameters=np.concatenate([in_float32(parameter).ravel() for parameter in model.parameters()]),
        gradients=np.stack(recorder.gradients),
        digests=np.array(recorder.digests),
        losses=np.diff(recorder.loss_sums, prepend=0.0),
        train_loss=result.training_loss,
        num_bytes=sum(num_bytes),
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


def run(name, scenario, output, num_ranks):
    config = dict(scenario.config)
    if mindnlp_dp_plugin.get_world_size() > 1:
        dataset = build_dataset(scenario, num_ranks, BATCH_SIZE)
        here = f"{name}.rank{mindnlp_dp_plugin.get_rank()}"
        train(here, scenario, output, num_ranks, dataset, scenario.accumulation, config)
    elif scenario.is_weighted:
        train(f"{name}.rank0", scenario, output, num_ranks, StepByStep(scenario, num_ranks), 1, {})
        if scenario.runs_alone:
            dataset, accumulation = build_dataset(scenario, num_ranks, BATCH_SIZE), scenario.accumulation * num_ranks
            train(f"{name}.alone", scenario, output, num_ranks, dataset, accumulation, config)
    else:
        dataset = build_dataset(scenario, num_ranks, BATCH_SIZE * num_ranks)
        trainer_type = MeanOfRanksTrainer if name == "label_smoothing" else RecordingTrainer
        train(f"{name}.rank0", scenario, output, num_ranks, dataset, scenario.accumulation, config, trainer_type)


if __name__ == "__main__":
    output_folder, emulated_ranks, *names = sys.argv[1:]
    for name in names:
        run(name, SCENARIOS[name], Path(output_folder), int(emulated_ranks))
