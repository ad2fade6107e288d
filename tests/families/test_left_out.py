"""Which labels models leave out: what the plugin knows of each is what its loss does."""

import mindnlp_dp_plugin  # isort: skip  # noqa: F401

import mindspore
import numpy as np
import pytest
from mindnlp.core import no_grad

from mindnlp_dp_plugin.step.left_out import FIRST, MASKED, left_out
from tests.families.catalogue import cases, folders
from tests.families.configs import FIRST_WORD, tiny_config
from tests.families.rows import rows

HEADS = ("causal_lm", "seq2seq_lm", "masked_lm", "token_classification")
SOME = ("bart", "gpt2", "llama", "t5", "xlnet", "bert", "biogpt")
UNREADABLE = (TypeError, AttributeError, ValueError, RuntimeError, NotImplementedError, KeyError, IndexError)


def left_out_by(folder, head, kind):
    """Which labels count nothing where there are no others, by the model's loss and by what is known; or two None."""
    try:
        model = kind(tiny_config(folder, kind.config_class, head))
        model.set_train(False)
        read = rows(folder, kind, head, 2)
        batch = {name: np.stack([np.asarray(row[name]) for row in read]) for name in read[0]}
        mask = np.ones_like(batch.get("attention_mask", batch["labels"]))
        mask[:, -1] = 0
        found = {}
        for name, place, more in ((FIRST, 0, {}), (MASKED, -1, {"attention_mask": mask})):
            labels = np.full(batch["labels"].shape, -100)
            labels[:, place] = FIRST_WORD if head != "token_classification" else 1
            given = {**batch, "labels": labels, **(more if "attention_mask" in batch else {})}
            with no_grad():
                loss = model(**{name: mindspore.Tensor(values) for name, values in given.items()}).loss.asnumpy()
            found[name] = bool(np.isnan(loss) or loss == 0)
    except UNREADABLE:  # it needs more than text, or another config
        return "unreadable", "unreadable"
    return next((name for name in found if found[name]), None), left_out(model)


def of_folder(folder):
    return {head: (kind, *left_out_by(folder, head, kind)) for head, kind in cases(folder).items() if head in HEADS}


@pytest.mark.parametrize("folder", [*SOME, *(pytest.param(each, marks=pytest.mark.slow) for each in folders())])
def test_it_is_known_which_labels_a_loss_leaves_out(folder):
    found = of_folder(folder)
    if folder in SOME:
        assert any(does != "unreadable" for _, does, _ in found.values())
    for head, (kind, does, known) in found.items():
        assert does == known, f"{kind.__name__}, {head}"
