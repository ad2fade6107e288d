"""Operators compute in the precision of their list, gradients arrive in float32, and all is taken back."""

import mindnlp_dp_plugin as dp  # isort: skip

from collections import namedtuple

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn, ops
from mindnlp.core.nn import functional
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindnlp.transformers.modeling_outputs import BaseModelOutput

from mindnlp_dp_plugin.mixed_precision import Autocast, LossScaler
from mindnlp_dp_plugin.patching import Patches

HALF, FULL = mindspore.float16, mindspore.float32
RANDOM = np.random.default_rng(0)


def numbers(*shape, dtype=FULL):
    return mindspore.Tensor(RANDOM.normal(size=shape).astype(np.float32)).astype(dtype)


@pytest.fixture
def autocast():
    patches = Patches()
    yield Autocast(HALF, patches)
    patches.undo()


OPERATORS = {
    "linear": (lambda: functional.linear(numbers(2, 3), numbers(4, 3), numbers(4)), HALF),
    "matmul": (lambda: ops.matmul(numbers(2, 3, 4), numbers(2, 4, 3)), HALF),
    "@": (lambda: numbers(2, 3) @ numbers(3, 2), HALF),
    "matmul of a tensor": (lambda: numbers(2, 3).matmul(numbers(3, 2)), HALF),
    "bmm": (lambda: ops.bmm(numbers(2, 3, 4), numbers(2, 4, 3)), HALF),
    "einsum": (lambda: ops.einsum("ij,jk->ik", numbers(2, 3), numbers(3, 2)), HALF),
    "conv1d": (lambda: functional.conv1d(numbers(1, 2, 8), numbers(3, 2, 3)), HALF),
    "softmax": (lambda: functional.softmax(numbers(2, 3, dtype=HALF), -1), FULL),
    "layer_norm": (lambda: functional.layer_norm(numbers(2, 3, dtype=HALF), (3,), numbers(3), numbers(3)), FULL),
    "cross_entropy": (lambda: functional.cross_entropy(numbers(2, 3, dtype=HALF), mindspore.Tensor([0, 2])), FULL),
    "sum": (lambda: ops.sum(numbers(2, 3, dtype=HALF)), FULL),
    "sum of a tensor": (lambda: numbers(2, 3, dtype=HALF).sum(), FULL),
    "**": (lambda: numbers(2, 3, dtype=HALF) ** 2, FULL),
    "cat": (lambda: ops.cat([numbers(2, 3, dtype=HALF), numbers(2, 3)], 0), FULL),
    "cat of halves": (lambda: ops.cat([numbers(2, 3, dtype=HALF)] * 2, 0), HALF),
    "gelu": (lambda: functional.gelu(numbers(2, 3, dtype=HALF)), HALF),
    "+": (lambda: numbers(2, 3, dtype=HALF) + numbers(2, 3), FULL),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_computes_in_the_precision_of_its_list(autocast, name):
    operator, dtype = OPERATORS[name]
    with autocast.running():
        assert operator().dtype == dtype


def test_nothing_is_cast_outside(autocast):
    with autocast.running():
        pass
    assert functional.linear(numbers(2, 3), numbers(4, 3)).dtype == FULL


def test_a_parameter_is_cast_once_in_a_forward_pass(autocast, monkeypatch):
    weight, casts = nn.Parameter(numbers(3, 3)), []
    stock = nn.Parameter.astype
    monkeypatch.setattr(nn.Parameter, "astype", lambda self, dtype: casts.append(self) or stock(self, dtype))

    def loss(x):
        with autocast.running():
            return functional.linear(functional.linear(x, weight), weight).sum()

    for _ in range(2):
        _, (gradient,) = mindspore.value_and_grad(loss, None, [weight])(numbers(2, 3))
        assert gradient.dtype == FULL
    assert len(casts) == 2


def test_a_gradient_taken_inside_does_not_free_what_is_used_after_it(autocast):
    weight, x = nn.Parameter(numbers(3, 3)), numbers(2, 3)

    def product():
        return functional.linear(x, weight).sum()

    def loss():
        with autocast.running():
            mindspore.value_and_grad(product, None, [weight])()
            return product()

    _, (gradient,) = mindspore.value_and_grad(loss, None, [weight])()
    np.testing.assert_allclose(gradient.asnumpy(), np.tile(x.asnumpy().sum(0), (3, 1)), atol=2e-3)


def test_a_model_differs_from_float32_by_rounding(autocast):
    mindspore.set_seed(0)
    config = BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    model.set_train()
    parameters = list(model.parameters())
    ids, labels = mindspore.Tensor(RANDOM.integers(0, 99, (4, 16))), mindspore.Tensor([0, 1, 1, 0])
    mask = mindspore.Tensor(np.tril(np.ones((4, 16), np.int64), 12))

    def loss():
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss

    def loss_in_half():
        with autocast.running():
            return loss()

    exact, exact_gradients = mindspore.value_and_grad(loss, None, parameters)()
    value, gradients = mindspore.value_and_grad(loss_in_half, None, parameters)()
    assert value.dtype == FULL and value != exact
    np.testing.assert_allclose(value.asnumpy(), exact.asnumpy(), rtol=2e-3)
    for gradient, wanted in zip(gradients, exact_gradients):
        assert gradient.dtype == FULL
        largest = np.abs(wanted.asnumpy()).max()
        assert np.abs(gradient.asnumpy() - wanted.asnumpy()).max() <= 0.02 * largest + 1e-6


def test_the_scale_follows_the_rule_of_grad_scaler():
    scaler = LossScaler(growth_interval=3)
    history = []
    for has_overflowed in (True, False, False, True, False, False, False, False):
        scaler.update(has_overflowed)
        history.append(scaler.scale)
    assert history == [32768, 32768, 32768, 16384, 16384, 16384, 32768, 32768]
    assert scaler.num_skipped == 2 and scaler.num_good_steps == 1


LAYERS = {"Conv1d": (1, 2, 8), "Conv2d": (1, 2, 8, 8)}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_convolutions_computes_in_half_and_its_gradients_are_float32(autocast, name):
    layer, x = getattr(nn, name)(2, 3, 3), numbers(*LAYERS[name])

    def loss():
        with autocast.running():
            y = layer(x)
            assert y.dtype == HALF
            return y.sum()

    _, gradients = mindspore.value_and_grad(loss, None, list(layer.parameters()))()
    assert [gradient.dtype for gradient in gradients] == [FULL, FULL]


def test_outputs_keep_their_kind(autocast):
    Pair = namedtuple("Pair", "left right")
    half = numbers(2, dtype=HALF)
    output = BaseModelOutput(last_hidden_state=half, hidden_states=(half, half))
    pair, widened = autocast.to_float32([Pair(half, 1), output])
    assert type(pair) is Pair and pair.left.dtype == FULL and pair.right == 1
    assert type(widened) is BaseModelOutput
    assert widened.last_hidden_state.dtype == widened["hidden_states"][1].dtype == FULL
    assert output.last_hidden_state.dtype == HALF


def test_a_loop_of_one_s_own_casts_in_a_context_that_leaves_no_trace():
    stock = functional.linear, mindspore.Tensor.__matmul__
    with dp.autocast():
        assert functional.linear(numbers(2, 3), numbers(4, 3)).dtype == HALF
        with dp.autocast():
            assert (numbers(2, 3) @ numbers(3, 4)).dtype == HALF
        assert (numbers(2, 3) @ numbers(3, 4)).dtype == HALF
    assert (functional.linear, mindspore.Tensor.__matmul__) == stock
    with pytest.raises(dp.DataParallelError, match="no operators for it on CPU"), dp.autocast(mindspore.bfloat16):
        pass
