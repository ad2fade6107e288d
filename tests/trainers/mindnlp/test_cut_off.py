"""In one process, too, a model that cannot train is named: weights without numbers, and gradients that are 0."""

import mindnlp_dp_plugin as dp  # isort: skip

import logging
from importlib.metadata import version

import mindspore
import pytest
from mindnlp.core import nn
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindspore.common.initializer import Normal

from tests.programs.tiny import tiny_model, tiny_trainer

dp.install()


def warnings(caplog):
    said = (record.getMessage() for record in caplog.records)
    return [message for message in said if "The gradients of" in message]


@pytest.mark.skipif(version("mindspore").startswith("2.7."), reason="has other tensors without an address, too")
def test_weights_without_numbers_are_named_before_training(tmp_path):
    model = tiny_model()
    empty = mindspore.Tensor(shape=(32, 32), dtype=mindspore.float32, init=Normal())
    model.bert.pooler.dense.weight = nn.Parameter(empty)
    with pytest.raises(dp.DataParallelError, match="Never initialised: bert.pooler.dense.weight. They were made by"):
        tiny_trainer(tmp_path, model=model).train()


class CutOff(nn.Module):
    """A model whose loss does not depend on its weights."""

    def __init__(self):
        super().__init__()
        self.classifier = tiny_model()

    def forward(self, input_ids, labels):
        loss = self.classifier(input_ids=input_ids, labels=labels).loss
        return {"loss": mindspore.ops.stop_gradient(loss)}


def test_a_first_step_without_gradients_is_said_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        trainer = tiny_trainer(tmp_path, model=CutOff(), max_steps=3, weight_decay=0.1)  # which moves the weights
        trainer.train()
    assert len(warnings(caplog)) == 1 and "of all 41 parameters that are trained are 0" in warnings(caplog)[0]


class Scale(nn.Linear):
    """Its weights get no gradient."""

    def forward(self, rows):
        return nn.functional.linear(rows, nn.Parameter(self.weight * 1))


class PartlyCutOff(nn.Module):
    """Some weights are used through a parameter made anew, others not at all."""

    def __init__(self):
        super().__init__()
        self.classifier, self.scale, self.unused = tiny_model(), Scale(3, 3), nn.Linear(3, 3)

    def forward(self, input_ids, labels):
        logits = self.scale(self.classifier(input_ids=input_ids).logits)
        return {"loss": nn.functional.cross_entropy(logits, labels)}


def test_weights_whose_gradients_are_cut_off_are_named_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        tiny_trainer(tmp_path, model=PartlyCutOff(), max_steps=4).train()
    (said,) = warnings(caplog)
    assert said.startswith("The gradients of scale.weight, scale.bias are 0, although their layers compute.")


class Unlabelled(CutOff):
    """Of the second batch no label counts."""

    def __init__(self):
        super().__init__()
        self.num_batches = 0

    def forward(self, input_ids, labels):
        self.num_batches += 1
        return {"loss": self.classifier(input_ids=input_ids, labels=labels).loss * float(self.num_batches != 2)}


def test_a_second_batch_without_labels_is_no_reason_for_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        tiny_trainer(tmp_path, model=Unlabelled(), max_steps=3).train()
    assert warnings(caplog) == []


def test_a_training_that_ends_before_leaves_no_hook_in_the_model(tmp_path):
    trainer = tiny_trainer(tmp_path, max_steps=1)
    trainer.train()
    assert not any(module._forward_pre_hooks for module in trainer.model.modules())


def test_adapters_that_begin_at_0_are_no_reason_for_a_warning(tmp_path, caplog):
    model = get_peft_model(tiny_model(), LoraConfig(task_type=TaskType.SEQ_CLS))
    with caplog.at_level(logging.WARNING):
        tiny_trainer(tmp_path, model=model, max_steps=4).train()
    assert warnings(caplog) == []


@pytest.mark.parametrize("arguments", [{}, {"warmup_steps": 2, "lr_scheduler_type": "linear"}])
def test_training_that_works_is_no_reason_for_a_warning(tmp_path, caplog, arguments):
    with caplog.at_level(logging.WARNING):
        trainer = tiny_trainer(tmp_path, max_steps=3, **arguments)
        trainer.train()
    assert warnings(caplog) == []
