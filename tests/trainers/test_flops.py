"""The formula of a model's FLOPS against the products that a forward pass of it computes, counted one by one."""

import mindnlp_dp_plugin  # noqa: F401  # isort: skip

import math
from contextlib import contextmanager
from itertools import zip_longest

import mindspore
import numpy as np
import pytest
from mindnlp.core import ops, value_and_grad
from mindnlp.core.nn import functional
from mindnlp.peft import LoraConfig, get_peft_model
from mindnlp.transformers import SegformerConfig, SegformerForImageClassification

from mindnlp_dp_plugin.cpu_operators import blas, matmul
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.observe.flops import ModelFlops
from tests.families import catalogue
from tests.families.configs import tiny_config
from tests.families.rows import LENGTH, rows

NUM_ROWS = 3
CASES = [
    *("bert/masked_lm", "bert/sequence_classification", "roberta/token_classification", "distilbert/masked_lm"),
    *("electra/multiple_choice", "albert/masked_lm", "gpt2/causal_lm", "llama/causal_lm", "qwen2/causal_lm"),
    *("gpt_neox/causal_lm", "mistral/causal_lm", "mixtral/causal_lm", "bloom/causal_lm", "t5/seq2seq_lm"),
    *("bart/seq2seq_lm", "mbart/seq2seq_lm"),
]


class Products:
    """Counts the floating point operations of all products of matrices while it listens."""

    def __init__(self):
        self.flops, self._depth = 0, 0

    @contextmanager
    def listening(self):
        patches = Patches()
        for owner, name, left, right in (
            (functional, "linear", 0, 1),
            (ops, "matmul", 0, 1),
            (ops, "bmm", 0, 1),
            (ops, "addmm", 1, 2),
            (ops, "baddbmm", 1, 2),
            (mindspore.Tensor, "__matmul__", 0, 1),
        ):
            patches.stand_in(owner, self._counting(name, left, right), name)
        try:
            yield
        finally:
            patches.undo()

    def _counting(self, name, left, right):
        def product(stock, *operands, **options):
            if not self._depth:  # one may call another
                shapes = [each.shape for each in (*operands, *options.values()) if isinstance(each, mindspore.Tensor)]
                self.flops += operations(name, shapes[left], shapes[right])
            self._depth += 1
            try:
                return stock(*operands, **options)
            finally:
                self._depth -= 1

        return product


def operations(name, left, right):
    *rows, inner = left
    if name == "linear":
        return 2 * math.prod(rows) * inner * right[0]
    pairs = zip_longest(rows[:-1][::-1], right[:-2][::-1], fillvalue=1)  # stacks, repeated where one has 1
    return 2 * math.prod(max(pair) for pair in pairs) * rows[-1] * inner * right[-1]


def model_and_batch(case):
    folder, head = case.split("/")
    model_class = catalogue.cases(folder)[head]
    model = model_class(tiny_config(folder, model_class.config_class, head))
    columns = rows(folder, model, head, NUM_ROWS)
    return model, {name: mindspore.Tensor(np.stack([row[name] for row in columns])) for name in columns[0]}


def flops_of_training(compute_loss, weights):
    """Those of the products that forward and backward hand to BLAS."""
    counted = [0]

    def product(stock, left, right, out=None):
        counted[0] += 2 * left.size * right.shape[-1]
        return stock(left, right) if out is None else stock(left, right, out)

    patches = Patches()
    patches.stand_in(blas, product, "product")
    patches.stand_in(blas, product, "batched_product")
    try:
        value_and_grad(compute_loss, weights)()
    finally:
        patches.undo()
    return counted[0]


@pytest.fixture(autouse=True)
def products_of_scores_one_by_one(monkeypatch):
    """As MindNLP computes them: what backward computes again is not counted among a model's FLOPS."""
    monkeypatch.setattr(matmul, "are_scores", lambda queries, keys: False)


@pytest.mark.parametrize("case", CASES)
def test_formula_is_what_is_counted(case):
    model, batch = model_and_batch(case)
    products = Products()
    with products.listening():
        model(**batch)
    flops = ModelFlops(model)
    full = np.full(len(batch["input_ids"].reshape(-1, LENGTH)), LENGTH)  # products compute padding, too
    forward = flops.of(full, full if flops.is_encoder_decoder else full[:0]) / 3
    assert forward == pytest.approx(products.flops, rel=0.001)


def test_adapters_are_products_beside_those_of_the_model():
    model, batch = model_and_batch("bert/sequence_classification")
    adapted = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=4, lora_dropout=0.0))
    products, full = Products(), np.full(NUM_ROWS, LENGTH)
    with products.listening():
        adapted(**batch)
    of_adapters = ModelFlops(adapted).of(full, full[:0])
    for parameter in adapted.parameters():
        parameter.requires_grad = True
    assert ModelFlops(adapted).of(full, full[:0]) / 3 == pytest.approx(products.flops, rel=0.001)
    assert of_adapters < 0.75 * 3 * products.flops, "frozen weights need no gradients"


@pytest.mark.parametrize("case", ["bert/masked_lm", "llama/causal_lm", "bart/seq2seq_lm"])
def test_training_takes_what_the_formula_says(case):
    model, batch = model_and_batch(case)
    flops = ModelFlops(model)
    counted = flops_of_training(lambda: model(**batch).loss, list(model.parameters()))
    full = np.full(NUM_ROWS, LENGTH)
    assert counted == pytest.approx(flops.of(full, full if flops.is_encoder_decoder else full[:0]), rel=0.01)


def test_padding_does_no_work():
    flops = ModelFlops(model_and_batch("bert/masked_lm")[0])
    none = np.zeros(0, int)
    short, long = flops.of(np.array([4, 4]), none), flops.of(np.array([8]), none)
    assert short < long < 2 * short, "the same tokens, and attention between all of them"
    assert flops.of(np.array([8, 0]), none) == long


def test_a_frozen_weight_needs_no_gradient_of_its_own():
    model, _ = model_and_batch("bert/masked_lm")
    tokens, none = np.array([LENGTH]), np.zeros(0, int)
    whole = ModelFlops(model).of(tokens, none)
    frozen = model.bert.encoder.layer[0].intermediate.dense.weight
    frozen.requires_grad = False
    assert whole - ModelFlops(model).of(tokens, none) == 2 * frozen.size * LENGTH


def test_layers_with_sizes_of_their_own_count_without_attention():
    segformer = SegformerForImageClassification(SegformerConfig(depths=[1] * 4, hidden_sizes=[8, 8, 20, 16]))
    assert not hasattr(segformer.config, "hidden_size")
    assert ModelFlops(segformer).of(np.array([4]), np.zeros(0)) > 0
