"""Which models shift their labels: what the plugin knows of each is what its loss does."""

import mindnlp_dp_plugin  # isort: skip  # noqa: F401

import mindspore
import numpy as np
import pytest
from mindnlp.core import no_grad
from mindnlp.transformers import GPT2LMHeadModel

from mindnlp_dp_plugin.step.next_token import predicts_next_token
from tests.families.catalogue import cases, folders
from tests.families.configs import FIRST_WORD, tiny_config
from tests.families.rows import rows

HEADS = ("causal_lm", "seq2seq_lm", "masked_lm", "token_classification")
SOME = ("bart", "gpt2", "t5", "xlnet", "bert")
UNREADABLE = (TypeError, AttributeError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError)


def shifts(folder, head, kind):
    """Whether a loss is no number, or 0, where the first label of each row is the only one; None if it has none."""
    try:
        model = kind(tiny_config(folder, kind.config_class, head))
        model.set_train(False)
        read = rows(folder, kind, head, 2)
        batch = {name: mindspore.Tensor(np.stack([np.asarray(row[name]) for row in read])) for name in read[0]}
        labels = np.full(batch["labels"].shape, -100)
        labels[:, 0] = FIRST_WORD if head != "token_classification" else 1
        with no_grad():
            loss = model(**{**batch, "labels": mindspore.Tensor(labels)}).loss.asnumpy()
    except UNREADABLE:  # it needs more than text, or another config
        return None, None
    return bool(np.isnan(loss) or loss == 0), predicts_next_token(model)


def of_folder(folder):
    return {head: (kind, *shifts(folder, head, kind)) for head, kind in cases(folder).items() if head in HEADS}


@pytest.mark.parametrize("folder", [*SOME, *(pytest.param(each, marks=pytest.mark.slow) for each in folders())])
def test_it_is_known_which_losses_leave_out_the_first_label(folder):
    found = of_folder(folder)
    if folder in SOME:
        assert any(does is not None for _, does, _ in found.values())
    for head, (kind, does, known) in found.items():
        assert does == known, f"{kind.__name__}, {head}"


def test_a_class_that_extends_one_shifts_as_it_does():
    class Mine(GPT2LMHeadModel):
        pass

    sizes = dict(vocab_size=96, n_embd=8, n_layer=1, n_head=1, n_positions=8)
    assert predicts_next_token(Mine(GPT2LMHeadModel.config_class(**sizes)))
