"""What the oracle trains. A scenario is a function that builds a model; its decorator holds what else is its own.

To add one, write one: ``train_scenarios.py`` trains it, and ``tests/distributed/test_oracle.py`` compares.
"""

import mindnlp_dp_plugin  # isort: skip

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.core.optim import SGD, Adam
from mindnlp.transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from mindspore.dataset import GeneratorDataset

from tests.programs import tiny

BATCH_SIZE = 8
SEQUENCE_LENGTH = 12
NUM_MISSING = 5  # rows of the last batch, where batches are uneven
NUM_LABELS = 3
RUN = 64  # elements over which squares are summed: few, so that tensors of small models are cut between ranks, too
SIZES = dict(**tiny.SIZES, **tiny.NO_DROPOUT, max_position_embeddings=32, num_labels=NUM_LABELS)
# float16 and bfloat16 keep 11 and 8 bits: one rounding changes a number by up to this much of itself.
FLOAT16_ROUNDING, BFLOAT16_ROUNDING = 2.0**-11, 2.0**-8


class Tolerances(NamedTuple):
    """How far ranks may end from one process: gradients relative to the largest of the step, losses, parameters."""

    gradients: float = 1e-6
    losses: float = 1e-5
    parameters: float = 2e-6


# BLAS's kernels for processors without fused multiply-add round each product, too: OpenBLAS's for Prescott reach
# 1.03e-6 where others stay at half of that.
WITHOUT_FMA = Tolerances(gradients=2e-6)


def rows_of_words(num_rows, num_ranks):
    chance = np.random.default_rng(7)
    return [tiny.row_of(chance) for _ in range(num_rows)]


def batched(rows, batch_size):
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(batch_size)


@dataclass
class Scenario:
    """One training, on ranks and as one process.

    Attributes:
        build_model: Returns the model, given the number of ranks. It is called with seeds set, and on each rank.
        optimizer: The argument ``optim``.
        own_optimizer: What makes the one that is used in place of the Trainer's.
        num_steps: Optimizer steps.
        num_batches: Batches in an epoch of each rank.
        accumulation: Micro-steps in an optimizer step.
        arguments: Further TrainingArguments.
        config: Fields of the DataParallelConfig.
        make_rows: Returns rows, given how many and the number of ranks.
        make_dataset: Returns a data set of batches, given rows and the size of a batch.
        takes_mean_of_ranks: Whether the one process is to take the mean of the losses that ranks would have.
        tolerances: How far ranks may end from one process.
    """

    build_model: Callable
    optimizer: str = "adamw"
    own_optimizer: Callable | None = None
    num_steps: int = 6
    num_batches: int = 10
    accumulation: int = 1
    arguments: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    make_rows: Callable = rows_of_words
    make_dataset: Callable = batched
    takes_mean_of_ranks: bool = False
    tolerances: Tolerances = Tolerances()

    def rows(self, num_ranks):
        return self.make_rows(self.num_batches * BATCH_SIZE * num_ranks, num_ranks)

    def dataset(self, num_ranks, batch_size):
        return self.make_dataset(self.rows(num_ranks), batch_size)


SCENARIOS = {}


def scenario(**options):
    """Name the decorated function's model and these options a scenario."""

    def enter(build_model):
        SCENARIOS[build_model.__name__] = Scenario(build_model, **options)
        return build_model

    return enter


def bert():
    return BertForSequenceClassification(BertConfig(**SIZES))


# Models and optimizers


@scenario(num_steps=20)
def bert_adamw(num_ranks):
    return bert()


@scenario(optimizer="sgd")
def bert_sgd(num_ranks):
    return bert()


@scenario(own_optimizer=Adam)
def adam(num_ranks):
    return bert()


Momentum = partial(SGD, momentum=0.9)


@scenario(own_optimizer=Momentum, optimizer="sgd", arguments={"learning_rate": 1e-2})
def momentum(num_ranks):
    return bert()


@scenario(arguments={"weight_decay": 0.1, "max_grad_norm": 0.1, "lr_scheduler_type": "cosine", "warmup_steps": 3})
def groups_and_schedule(num_ranks):
    return bert()


# Accumulation


@scenario(accumulation=4)
def accumulation_with_tail(num_ranks):
    """10 batches an epoch: the third step of an accumulation of 4 spans two epochs."""
    return bert()


@scenario(accumulation=4, num_batches=3, num_steps=8)
def epoch_shorter_than_accumulation(num_ranks):
    """3 batches an epoch: stock steps at the end of each epoch, and whenever 4 micro-steps have come together."""
    return bert()


# Parameters that are not trained, not used, or used twice


@scenario()
def frozen_embeddings(num_ranks):
    return tiny.with_frozen_embeddings(bert())


class WithExtraParameters(nn.Module):
    """A classifier with one more parameter, and a linear layer that has two names."""

    def __init__(self, num_ranks):
        super().__init__()
        self.classifier = bert()
        self.extra = nn.Parameter(ops.zeros(NUM_LABELS))
        self.mixer = nn.Linear(NUM_LABELS, NUM_LABELS)
        self.mixer_again = self.mixer
        self.num_ranks = num_ranks

    def forward(self, input_ids, labels):
        logits = self.change(self.classifier(input_ids=input_ids).logits)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    def change(self, logits):
        return logits


@scenario()
def unused_parameter(num_ranks):
    return WithExtraParameters(num_ranks)


class OnlyRank1UsesExtra(WithExtraParameters):
    def change(self, logits):
        if mindnlp_dp_plugin.get_world_size() == 1:
            belongs_to_rank_1 = np.arange(len(logits)) % self.num_ranks == 1
            return logits + mindspore.Tensor(belongs_to_rank_1[:, None].astype(np.float32)) * self.extra
        return logits + self.extra if mindnlp_dp_plugin.get_rank() == 1 else logits


@scenario()
def used_by_one_rank(num_ranks):
    return OnlyRank1UsesExtra(num_ranks)


@scenario(accumulation=4)
def used_by_one_rank_accumulated(num_ranks):
    return OnlyRank1UsesExtra(num_ranks)


class UsesLayerTwice(WithExtraParameters):
    def change(self, logits):
        return logits + self.mixer_again(ops.tanh(self.mixer(logits)))


@scenario()
def tied_weights(num_ranks):
    return UsesLayerTwice(num_ranks)


@scenario(num_steps=4)
def lora(num_ranks):
    return tiny.with_lora(bert())


# Buckets


@scenario(config={"bucket_cap_mb": 0}, num_steps=4)
def bucket_per_parameter(num_ranks):
    return bert()


@scenario(config={"bucket_cap_mb": 0.01})
def many_buckets(num_ranks):
    return bert()


# Ranks that count otherwise


def rows_but_for_the_last(num_rows, num_ranks):
    return rows_of_words(num_rows, num_ranks)[:-NUM_MISSING]


def batched_without_a_size(rows, batch_size):
    """Dealt out by batch, the last one as it is."""
    dataset = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False)
    return dataset.filter(lambda words: True, ["input_ids"]).batch(batch_size)


@scenario(
    make_rows=rows_but_for_the_last, make_dataset=batched_without_a_size,
    optimizer="sgd", accumulation=2, num_batches=4, num_steps=4,
)  # fmt: skip
def unequal_batches(num_ranks):
    """The last batch of an epoch has 3 rows instead of 8."""
    return bert()


def rows_with_labels_of_words(num_rows, num_ranks):
    """Rows of other ranks and other micro-steps have other numbers of labels; -100 marks what does not count."""
    chance, rows = np.random.default_rng(7), []
    for row in range(num_rows):
        words, _ = tiny.row_of(chance)
        rank, micro_step = row % num_ranks, row // (BATCH_SIZE * num_ranks)
        labels = chance.integers(NUM_LABELS, size=SEQUENCE_LENGTH).astype(np.int32)
        labels[1 + (rank + 2 * micro_step) % 5 :] = -100
        rows.append((words, labels))
    return rows


def rows_with_a_batch_that_does_not_count(num_rows, num_ranks):
    """No word of rank 0's first batch has a label."""
    rows = rows_with_labels_of_words(num_rows, num_ranks)
    for _, labels in rows[: BATCH_SIZE * num_ranks : num_ranks]:
        labels[:] = -100
    return rows


@scenario(
    config={"average_over": "ranks"}, arguments={"label_smoothing_factor": 0.1}, make_rows=rows_with_labels_of_words,
    num_steps=4, takes_mean_of_ranks=True,
)  # fmt: skip
def mean_of_ranks(num_ranks):
    return BertForTokenClassification(BertConfig(**SIZES))


@scenario(arguments={"label_smoothing_factor": 0.1}, make_rows=rows_with_labels_of_words, num_steps=4)
def label_smoothing(num_ranks):
    return BertForTokenClassification(BertConfig(**SIZES))


@scenario(
    arguments={"label_smoothing_factor": 0.1}, make_rows=rows_with_a_batch_that_does_not_count,
    optimizer="sgd", accumulation=2, num_batches=4, num_steps=4, tolerances=WITHOUT_FMA,
)  # fmt: skip
def label_smoothing_accumulated(num_ranks):
    return BertForTokenClassification(BertConfig(**SIZES))


@scenario(make_rows=rows_with_a_batch_that_does_not_count, num_batches=3, num_steps=4)
def masked_words(num_ranks):
    return BertForMaskedLM(BertConfig(**SIZES))


# Grouping by length


def rows_of_any_length(num_rows, num_ranks):
    """A row's first two words are its number."""
    chance, rows = np.random.default_rng(7), []
    for row in range(num_rows):
        words, label = tiny.row_of(chance)
        words = words[: chance.integers(3, SEQUENCE_LENGTH + 1)]
        words[:2] = 4 + np.array(divmod(row, 64))
        rows.append((words, np.ones_like(words), label))
    return rows


def batched_and_padded(rows, batch_size):
    dataset = GeneratorDataset(rows, ["input_ids", "attention_mask", "labels"])
    padding = mindnlp_dp_plugin.DynamicPadding({"input_ids": 0, "attention_mask": 0}, pad_to_multiple_of=4)
    return dataset.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)


@scenario(
    arguments={"group_by_length": True}, make_rows=rows_of_any_length, make_dataset=batched_and_padded,
    num_batches=8, num_steps=16,
)  # fmt: skip
def grouped_by_length(num_ranks):
    return bert()


# Half precision


def bert_in_float16():
    """In one process it computes in float32: with all rows it would lose a row's gradients to the smallest numbers."""
    model = bert().to(dtype=mindspore.float16)
    return model.to(dtype=mindspore.float32) if mindnlp_dp_plugin.get_world_size() == 1 else model


# The one process computes in float32. Gradients are rounded by some ten operators on their way back, and where
# LayerNorm sums them over rows and words. Parameters are at most 1 and rounded once in each of 4 steps.
BESIDE_FLOAT32 = Tolerances(16 * FLOAT16_ROUNDING, 2 * FLOAT16_ROUNDING, 4 * FLOAT16_ROUNDING)


@scenario(optimizer="sgd", num_steps=4, tolerances=BESIDE_FLOAT32)
def float16(num_ranks):
    return bert_in_float16()


@scenario(optimizer="sgd", accumulation=2, num_batches=4, num_steps=4, tolerances=BESIDE_FLOAT32)
def float16_accumulated(num_ranks):
    return bert_in_float16()


@scenario(arguments={"fp16": True}, num_steps=4, tolerances=BESIDE_FLOAT32)
def float32_masters(num_ranks):
    return bert_in_float16()


class WithHalfPrecisionWeights(nn.Module):
    """A float32 classifier with LayerNorms in front of float16 and bfloat16 weights.

    The bfloat16 ones are only stored so: MindSpore has no operators for bfloat16 on CPU.
    """

    def __init__(self):
        super().__init__()
        self.classifier = bert()
        self.in_float16 = nn.Parameter(ops.randn(NUM_LABELS, NUM_LABELS).astype(mindspore.float16))
        self.in_bfloat16 = nn.Parameter(ops.randn(NUM_LABELS, NUM_LABELS).astype(mindspore.bfloat16))

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


# Gradients are rounded to bfloat16 on each rank, and once more when they are averaged. A weight that is then rounded
# to its other neighbour moves the logits by that part of themselves. Parameters are rounded once in each of 4 steps.
ROUNDED_TO_BFLOAT16 = Tolerances(2 * BFLOAT16_ROUNDING, BFLOAT16_ROUNDING, 4 * BFLOAT16_ROUNDING)


@scenario(
    arguments={"max_grad_norm": 0.0},  # no norm of bfloat16 on CPU
    optimizer="sgd", own_optimizer=SGDThroughFloat32, num_steps=4, tolerances=ROUNDED_TO_BFLOAT16,
)  # fmt: skip
def half_precision_weights(num_ranks):
    return WithHalfPrecisionWeights()
