"""``elastic_determinism`` in one process: what a step is made of, what is refused, what a checkpoint says of it."""

import mindnlp_dp_plugin as dp  # isort: skip

import sys

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn
from mindnlp.engine import Trainer, TrainingArguments

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.environment import environment
from mindnlp_dp_plugin.trainers.mindnlp.global_batch import fixed_micro_batches
from tests.programs.noted import flat
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_rows, tiny_trainer, without_dropout

ROUNDING = 2e-6


@pytest.fixture
def configured():
    """Hook the Trainer of this process; afterwards it is MindNLP's own again."""
    yield lambda **settings: dp.install(dp.DataParallelConfig(**settings))
    dp.install(dp.DataParallelConfig())


def trained(folder, **arguments):
    trainer = tiny_trainer(folder, without_dropout(), tiny_rows(64, shuffle=True).batch(4), **arguments)
    trainer.train()
    return flat(trainer.model)


@pytest.mark.parametrize(
    "optim, of_sums, of_means",
    [
        ("sgd", {"learning_rate": 0.1 / 4}, {"learning_rate": 0.1}),
        ("adamw", {"learning_rate": 0.01, "adam_epsilon": 4e-4}, {"learning_rate": 0.01, "adam_epsilon": 1e-4}),
    ],
)
def test_a_step_is_the_mean_of_its_micro_batches(tmp_path, configured, optim, of_sums, of_means):
    """It is that of MindNLP's Trainer, which sums over micro-steps, by the settings that the docs name."""
    plain = {"optim": optim, "max_steps": 4, "gradient_accumulation_steps": 4}
    configured(async_save=True)
    expected = trained(tmp_path / "plain", max_grad_norm=4 * 0.1, **of_sums, **plain)
    configured(elastic_determinism=True)
    found = trained(tmp_path / "elastic", max_grad_norm=0.1, **of_means, **plain)
    assert np.abs(found - expected).max() <= ROUNDING
    assert np.abs(found - flat(without_dropout())).max() > 1000 * ROUNDING


def test_micro_batches_that_count_alike_have_one_mean(tmp_path, configured):
    ended = []
    for mean in ("auto", "ranks"):
        configured(elastic_determinism=True, average_over=mean)
        ended.append(trained(tmp_path / mean, max_steps=2, gradient_accumulation_steps=2))
    np.testing.assert_array_equal(*ended)


def test_a_number_of_micro_batches_sets_the_accumulation(tmp_path, configured):
    configured(elastic_determinism=True)
    expected = trained(tmp_path / "accumulated", gradient_accumulation_steps=4)
    configured(elastic_determinism=4)
    np.testing.assert_array_equal(trained(tmp_path / "set"), expected)


def test_a_number_that_ranks_do_not_divide_is_refused():
    arguments = TrainingArguments("unused")
    refused = pytest.raises(dp.DataParallelError, match="elastic_determinism=4: .* among 3 ranks. .*: 1, 2, 4")
    with refused, fixed_micro_batches(arguments, 3, 4):
        pass
    with fixed_micro_batches(arguments, 2, 4):
        assert arguments.gradient_accumulation_steps == 2
    assert arguments.gradient_accumulation_steps == 1


class Noting(Trainer):
    def training_step(self, model, inputs):
        self.num_seen = getattr(self, "num_seen", 0) + len(inputs["labels"])
        return super().training_step(model, inputs)


def test_an_overridden_training_step_is_called(tmp_path, configured):
    configured(elastic_determinism=2)
    trainer = tiny_trainer(tmp_path, trainer_type=Noting, max_steps=3)
    trainer.train()
    assert trainer.num_seen == 3 * 2 * 8


class TrainsTwice(Trainer):
    def training_step(self, model, inputs):
        super().training_step(model, inputs)
        return super().training_step(model, inputs)


class WithStatistics(nn.Module):
    """Its running mean depends on the rows that a rank has read."""

    def __init__(self):
        super().__init__()
        self.classifier = tiny_model()
        self.register_buffer("mean", mindspore.ops.zeros(1))

    def forward(self, input_ids, labels):
        self.mean = self.mean * 0.9 + input_ids.astype(mindspore.float32).mean() * 0.1
        return self.classifier(input_ids=input_ids, labels=labels)


def sharded_by_the_script():
    rows = [(np.arange(4, 16, dtype=np.int32), np.int32(row % 3)) for row in range(32)]
    sampler = mindspore.dataset.DistributedSampler(2, 0, shuffle=False)
    return mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"], sampler=sampler).batch(8)


@pytest.mark.parametrize(
    "named, settings, changes",
    [
        ("super.*training_step.* twice", {}, {"trainer_type": TrainsTwice}),
        ("the buffer mean", {}, {"model": WithStatistics}),
        ("sharded already", {}, {"dataset": sharded_by_the_script}),
        ("comm_dtype='float16'", {"comm_dtype": "float16"}, {}),
    ],
)
def test_what_would_depend_on_the_number_of_ranks_is_refused(tmp_path, configured, named, settings, changes):
    configured(elastic_determinism=2, **settings)
    built = {name: value() if name in ("model", "dataset") else value for name, value in changes.items()}
    trainer = tiny_trainer(tmp_path, **{"dataset": tiny_dataset(), **built})
    with pytest.raises(dp.DataParallelError, match=named):
        trainer.train()


def test_resuming_in_mid_epoch_without_it_is_refused(tmp_path, configured):
    configured(elastic_determinism=2)
    arguments = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    tiny_trainer(tmp_path, **arguments).train()
    configured(async_save=True)
    trainer = tiny_trainer(tmp_path, gradient_accumulation_steps=2, **{**arguments, "max_steps": 4})
    with pytest.raises(dp.DataParallelError, match="elastic_determinism was True and is False"):
        trainer.train(resume_from_checkpoint=True)


def test_a_checkpoint_says_which_ranks_train_its_bits(tmp_path, configured):
    save = {"max_steps": 2, "save_strategy": "steps", "save_steps": 2}
    configured(elastic_determinism=4)
    for name in ("one", "again"):
        tiny_trainer(tmp_path / name, **save).train()
    one, again = (store.read_published(tmp_path / name / "checkpoint-2") for name in ("one", "again"))
    assert one["same_bits_on"] == [1, 2, 4] and one["command"] == sys.argv and one["environment"] == environment()
    assert one["settings"]["world_size"] * one["settings"]["gradient_accumulation_steps"] == 4
    weights = [name for name in one["digests"] if name.startswith("model")]
    assert weights and all(one["digests"][name] == again["digests"][name] for name in weights)
    configured(resume=True)
    tiny_trainer(tmp_path / "plain", **save).train()
    plain = store.read_published(tmp_path / "plain" / "checkpoint-2")
    assert not {"same_bits_on", "command", "environment"} & plain.keys(), "arguments may be nobody else's business"
