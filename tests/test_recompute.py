"""Layers compute their activations again in backward: the same gradients, with far less memory."""

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import sys
from typing import NamedTuple

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn
from mindnlp.transformers import GPT2Config, PreTrainedModel
from mindnlp.transformers.modeling_outputs import BaseModelOutput

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.mixed_precision import Autocast
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.recompute import disable_recompute, enable_recompute
from mindnlp_dp_plugin.step.across_ranks import require_normalised_once
from tests.families import catalogue
from tests.families.configs import tiny_config
from tests.families.rows import rows
from tests.harness import PROGRAMS, run
from tests.programs.tiny import seed_everything, tiny_model

ROUNDING = 2e-7  # of the largest gradient: what layers share, as an encoder's output, is summed in another order
FAMILIES = {
    "albert/masked_lm": 0,
    "bert/sequence_classification": 0,
    "deberta_v2/token_classification": 0,
    "gpt2/causal_lm": 0,
    "llama/causal_lm": 0,
    "reformer/masked_lm": 0,
    "xlnet/question_answering": 0,
    "bart/seq2seq_lm": ROUNDING,
    "t5/seq2seq_lm": ROUNDING,
}


def gradients(model, batch):
    seed_everything(7)
    _, gradients = mindspore.value_and_grad(lambda: model(**batch).loss, None, tuple(model.parameters()))()
    return [gradient.asnumpy() for gradient in gradients]


def batch_for(model, folder, head):
    columns = rows(folder, model, head, 4)
    return {name: mindspore.Tensor(np.stack([row[name] for row in columns])) for name in columns[0]}


@pytest.mark.parametrize("case", FAMILIES)
def test_gradients_are_the_same(case):
    folder, head = case.split("/")
    model_class = catalogue.cases(folder)[head]
    model = model_class(tiny_config(folder, model_class.config_class, head)).set_train(True)
    batch = batch_for(model, folder, head)
    expected = gradients(model, batch)
    model.recompute_enable(recompute_kwargs={})
    largest = max(np.abs(gradient).max() for gradient in expected)
    for gradient, value in zip(gradients(model, batch), expected):
        np.testing.assert_allclose(gradient, value, rtol=0, atol=FAMILIES[case] * largest)


@pytest.fixture
def with_dropout():
    model = tiny_model(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2).set_train(True)
    return model, batch_for(model, "roberta", "sequence_classification")


def test_dropout_drops_the_same_units_again(with_dropout):
    expected = gradients(*with_dropout)
    PreTrainedModel.gradient_checkpointing_enable(with_dropout[0])
    np.testing.assert_equal(gradients(*with_dropout), expected)
    PreTrainedModel.gradient_checkpointing_disable(with_dropout[0])
    np.testing.assert_equal(gradients(*with_dropout), expected)


def test_half_precision_is_that_of_forward(with_dropout):
    model, batch = with_dropout
    patches = Patches()
    autocast = Autocast(mindspore.float16, patches)

    def loss():
        with autocast.running():
            return model(**batch).loss

    def gradients():
        seed_everything(7)
        return [gradient.asnumpy() for gradient in mindspore.value_and_grad(loss, None, tuple(model.parameters()))()[1]]

    try:
        expected = gradients()
        enable_recompute(model)
        np.testing.assert_equal(gradients(), expected)
    finally:
        patches.undo()
        disable_recompute(model)


class Two(NamedTuple):
    hidden: mindspore.Tensor
    longest: mindspore.Tensor


class Returns(nn.Module):
    """A layer that returns its hidden states beside integers, in a container of the given kind."""

    def __init__(self, container):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.container = container

    def forward(self, taken):
        hidden = self.linear(taken[0]).tanh()
        return self.container(hidden, hidden.argmax(-1))


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleList(layers)])

    def forward(self, hidden):
        taken = self.blocks[0][0].container(hidden, hidden)
        for layer in self.blocks[0]:
            taken = layer(taken)
        return taken[0].sum()


CONTAINERS = {
    "tuple": lambda hidden, longest: (hidden, longest),
    "list": lambda hidden, longest: [hidden, longest],
    "named_tuple": Two,
    "model_output": lambda hidden, longest: BaseModelOutput(last_hidden_state=hidden, attentions=longest),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_layers_may_return_integers_and_containers_of_any_kind(container):
    """In a list of lists of layers, too."""
    model = Stack(Returns(container), Returns(container)).set_train(True)
    inputs = mindspore.Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))

    def gradients():
        _, found = mindspore.value_and_grad(lambda: model(inputs), None, tuple(model.parameters()))()
        return [gradient.asnumpy() for gradient in found]

    expected = gradients()
    calls = count_calls(model.blocks[0][0].linear)
    enable_recompute(model)
    np.testing.assert_equal(gradients(), expected)
    assert len(calls) == 2, "forward and once again in backward"
    disable_recompute(model)
    gradients()
    assert len(calls) == 3


def count_calls(layer):
    calls = []
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


def test_a_forward_of_ones_own_is_not_replaced():
    model = Stack(Returns(tuple))
    model.blocks[0][0].forward = lambda taken: taken
    with pytest.raises(DataParallelError, match="a Returns of Stack has one of its own"):
        enable_recompute(model)


def test_caches_are_left_out_with_a_word(caplog):
    caplog.set_level("INFO")
    model = catalogue.cases("gpt2")["causal_lm"](tiny_config("gpt2", GPT2Config, "causal_lm"))
    enable_recompute(model)
    assert model.config.use_cache is False
    assert "use_cache=False" in caplog.text


def test_batch_normalisation_of_all_ranks_is_not_computed_again():
    model = nn.Sequential(nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))]), nn.BatchNorm1d(3))
    require_normalised_once(model)
    enable_recompute(model)
    with pytest.raises(DataParallelError, match="Sequential has batch normalisation"):
        require_normalised_once(model)


def test_a_model_without_layers_is_named():
    with pytest.raises(DataParallelError, match="Linear has no nn.ModuleList"):
        enable_recompute(nn.Linear(2, 2))


@pytest.mark.slow
def test_activations_leave_memory():
    """16 layers of 4 x 128 tokens: what one layer keeps is about a sixteenth of what all keep."""
    peaks = {}
    for way in ("kept", "recomputed"):
        finished = run([sys.executable, PROGRAMS / "peak_memory.py", way])
        assert finished.returncode == 0, finished.stderr
        peaks[way] = float(finished.stdout.split()[-2])
    assert peaks["recomputed"] < 0.4 * peaks["kept"], peaks
