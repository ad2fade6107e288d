"""Attention whose scores are computed again, beside the same models with scores that are kept."""

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import importlib
import tracemalloc

import mindspore
import numpy as np
import pytest
from mindnlp import transformers
from mindnlp.core import nn, ops
from mindnlp.transformers.models.bert.modeling_bert import BertSelfAttention

from mindnlp_dp_plugin.cpu_operators import attention, matmul, scores
from mindnlp_dp_plugin.cpu_operators.routes import MODULES_OF_ATTENTION, route
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.recompute import enable_recompute
from tests.programs.tiny import SIZES, seed_everything

LENGTH, NUM_ROWS = 101, 3
ENCODERS, DECODERS = ("Bert", "Electra", "Roberta"), ("Llama", "Mistral", "Qwen2")
FAMILIES = (*ENCODERS, *DECODERS, "GPT2", "T5")


def model_of(family, drops):
    seed_everything(3)
    if family in ENCODERS:
        changes = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=drops, max_position_embeddings=160)
        end = "ForSequenceClassification"
    elif family == "T5":
        changes = dict(d_model=32, num_heads=2, d_ff=64, d_kv=16, num_decoder_layers=2, dropout_rate=drops)
        end = "ForConditionalGeneration"
    elif family == "GPT2":
        changes = dict(n_embd=32, n_layer=2, n_head=2, n_positions=160, attn_pdrop=drops, resid_pdrop=0, embd_pdrop=0)
        end = "LMHeadModel"
    else:
        changes = dict(num_key_value_heads=1, attention_dropout=drops, max_position_embeddings=160)
        end = "ForCausalLM"
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changes, "pad_token_id": 0})
    config.decoder_start_token_id = 0
    return getattr(transformers, family + end)(config)


def outcome(model, family, **more):
    """Its loss, and the gradients of what it trains."""
    chance = np.random.default_rng(0)
    tokens = chance.integers(4, 96, (NUM_ROWS, LENGTH)).astype(np.int32)
    mask = np.ones_like(tokens)
    mask[0, -23:], mask[1, :17] = 0, 0 if family in DECODERS else 1
    labels = np.arange(NUM_ROWS) % 2 if family in ENCODERS else tokens
    columns = dict(input_ids=tokens, attention_mask=mask, labels=labels.astype(np.int32))
    columns = {name: mindspore.Tensor(values) for name, values in columns.items()}
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    mindspore.set_seed(5)  # what dropout draws
    loss, gradients = mindspore.value_and_grad(lambda: model(**columns, **more).loss, None, weights)()
    return [loss.asnumpy(), *(gradient.asnumpy() for gradient in gradients)]


@pytest.fixture
def routed():
    """Also where other tests of this folder have taken the operators out."""
    patches, names = Patches(), {module for module, _ in MODULES_OF_ATTENTION}
    route(patches, lambda name, call: call(importlib.import_module(name)) if name in names else None)
    yield
    patches.undo()


@pytest.fixture
def computed(monkeypatch):
    """The blocks' number of queries, and whether any were computed."""
    monkeypatch.setattr(attention, "BLOCK", 48 * LENGTH)  # three blocks, of which the last is shorter
    found, stock = [], attention.Attention.compute
    monkeypatch.setattr(
        attention.Attention, "compute", lambda self, *inputs: (found.append(inputs), stock(self, *inputs))[1]
    )
    return found


def kept(monkeypatch):
    monkeypatch.setattr(matmul, "are_scores", lambda queries, keys: False)


def assert_alike(mine, theirs):
    assert mine[0] == theirs[0] and len(mine) == len(theirs)
    for one, other in zip(mine[1:], theirs[1:]):
        np.testing.assert_allclose(one, other, rtol=0, atol=3e-6 * max(1e-2, np.abs(other).max()))


@pytest.mark.parametrize("drops", [0.0, 0.1])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_have_the_bits_and_gradients_the_size_of_scores_that_are_kept(
    routed, monkeypatch, computed, family, drops
):
    model = model_of(family, drops)
    model.set_train(True)
    mine = outcome(model, family)
    assert computed and not any(map(np.isnan, mine[0].reshape(-1)))
    computed.clear()
    kept(monkeypatch)
    assert_alike(mine, outcome(model, family))
    assert not computed


@pytest.mark.parametrize("family", ["Bert", "Llama", "T5"])
def test_layers_that_compute_again_draw_the_same(routed, monkeypatch, computed, family):
    model = model_of(family, 0.1)
    model.set_train(True)
    without = outcome(model, family)
    enable_recompute(model)
    assert_alike(outcome(model, family), without)


@pytest.mark.parametrize("family", ["Bert", "GPT2", "Llama"])
def test_weights_that_are_asked_for_are_there(routed, computed, family):
    model = model_of(family, 0.0)
    model.set_train(False)
    tokens = mindspore.Tensor(np.random.default_rng(1).integers(4, 96, (2, 9)).astype(np.int32))
    weights = model(input_ids=tokens, output_attentions=True).attentions
    np.testing.assert_allclose(weights[-1].asnumpy().sum(-1), 1, rtol=1e-5)
    assert not computed


@pytest.mark.parametrize("family", ["GPT2", "Llama", "T5"])
def test_sentences_are_the_same(routed, monkeypatch, computed, family):
    model = model_of(family, 0.0)
    model.set_train(False)
    tokens = mindspore.Tensor([[5, 7, 9, 11]])
    mine = model.generate(tokens, max_new_tokens=6, do_sample=False).asnumpy()
    assert computed
    kept(monkeypatch)
    assert np.array_equal(mine, model.generate(tokens, max_new_tokens=6, do_sample=False).asnumpy())


def drawn(*shape, seed=0):
    return mindspore.Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_scores_are_a_tensor_for_whoever_asks_for_something_else(routed):
    from mindnlp.core import ops
    from mindnlp.core.nn import functional

    queries, keys, bias = drawn(2, 3, 5, 4), drawn(2, 3, 4, 6, seed=1), drawn(1, 1, 5, 6, seed=2)
    with scores._attending(True):
        found = ops.matmul(queries, keys)
        assert type(found) is scores.Scores and found.shape == (2, 3, 5, 6)
        weights = functional.softmax(found / 2 + bias, dim=-1)
        read = [found[0], found.sum(), weights * 2, weights.max()]
    whole = ops.matmul(queries, keys)
    shares = functional.softmax(whole / 2 + bias, dim=-1)
    for mine, theirs in zip(read, [whole[0], whole.sum(), shares * 2, shares.max()]):
        assert np.array_equal(mine.asnumpy(), theirs.asnumpy())


def test_whatever_stands_beside_scores_in_a_formula_gets_a_tensor(routed):
    queries, keys = drawn(2, 3, 5, 4), drawn(2, 3, 4, 6, seed=1)
    with scores._attending(True):
        found = matmul.matmul(None, queries, keys)
    whole = found.tensor
    for formula in (
        *(lambda x: x - 1, lambda x: 1 - x, lambda x: 2 * x, lambda x: -x, lambda x: x > 0, lambda x: x == x),
        *(lambda x: x**2, lambda x: 1 / (x * x + 1), lambda x: abs(x), lambda x: x[..., 0]),
    ):
        assert np.array_equal(formula(found).asnumpy(), formula(whole).asnumpy())


class OwnDropout(nn.Module):
    def forward(self, weights):
        return ops.where(weights > 0.01, weights, ops.zeros_like(weights))


class OwnAttention(BertSelfAttention):
    """A user's."""


def test_modules_of_ones_own_within_attention_get_tensors(routed, computed):
    model = model_of("Bert", 0.0)
    for layer in model.bert.encoder.layer:
        layer.attention.self.dropout = OwnDropout()
    assert len(outcome(model, "Bert")) > 10 and not computed
    for layer in model.bert.encoder.layer:
        layer.attention.self.dropout = nn.Dropout(0.0)
        layer.attention.self.__class__ = OwnAttention
    assert len(outcome(model, "Bert")) > 10 and not computed


def test_a_row_that_sees_nothing_weighs_all_keys_alike(routed):
    from mindnlp.core import ops
    from mindnlp.core.nn import functional

    queries, keys, values = drawn(1, 2, 120, 4), drawn(1, 2, 4, 120, seed=1), drawn(1, 2, 120, 4, seed=2)
    least = np.finfo(np.float32).min
    mask = np.triu(np.full((1, 1, 120, 120), least, np.float32), 1)
    mask[..., :3, :] = least
    found = {}
    for is_attending in (True, False):
        with scores._attending(is_attending):
            weights = functional.softmax(ops.matmul(queries, keys) + mindspore.Tensor(mask), dim=-1)
            found[is_attending] = ops.matmul(weights, values).asnumpy()
    assert np.array_equal(found[True], found[False])
    np.testing.assert_allclose(found[True][0, :, 0], values.asnumpy()[0].mean(1), atol=1e-6)


def test_no_scores_are_kept(routed, monkeypatch):
    """A step's peak: with those that are kept it grows by each layer's."""
    length, peaks = 768, {}
    seed_everything(3)
    config = dict(SIZES, num_hidden_layers=6, max_position_embeddings=length, attention_dropout=0.0, pad_token_id=0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    tokens = mindspore.Tensor(np.random.default_rng(1).integers(4, 96, (2, length)).astype(np.int32))
    weights = list(model.parameters())
    for what in ("again", "kept"):
        if what == "kept":
            kept(monkeypatch)
        gradients_of = mindspore.value_and_grad(lambda: model(input_ids=tokens, labels=tokens).loss, None, weights)
        tracemalloc.start()  # knows of NumPy's arrays
        gradients_of()
        peaks[what] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    of_a_layer = 4 * 2 * 2 * length**2
    assert peaks["kept"] > peaks["again"] + 4 * of_a_layer


def test_each_module_of_attention_is_there():
    for module, name in MODULES_OF_ATTENTION:
        assert hasattr(importlib.import_module(module), name)
