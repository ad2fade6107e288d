"""What a batch counts."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
import pytest
from mindnlp.engine import Trainer, TrainerCallback
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindnlp.transformers import ElectraConfig, ElectraForPreTraining, GPT2Config, GPT2LMHeadModel
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin.step.labels import count_labels, may_have_labels
from mindnlp_dp_plugin.step.left_out import FIRST, MASKED, left_out
from tests.programs.noted import flat
from tests.programs.tiny import tiny_model, tiny_trainer


@pytest.fixture
def configured():
    """Hook the Trainer of this process; afterwards it is MindNLP's own again."""
    yield lambda **settings: dp.install(dp.DataParallelConfig(**settings))
    dp.install(dp.DataParallelConfig())


def tiny_gpt():
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1))


def batch(**columns):
    return {name: mindspore.Tensor(np.array(values, np.int32)) for name, values in columns.items()}


def test_plain_models_leave_out_nothing_else():
    assert left_out(tiny_model()) is None


def test_a_causal_language_model_never_predicts_the_first_token():
    lora = get_peft_model(tiny_gpt(), LoraConfig(task_type=TaskType.CAUSAL_LM, r=2, target_modules=["c_attn"]))
    for model in (tiny_gpt(), lora):
        assert count_labels(batch(labels=[[5, 3, -100], [0, -100, 1]]), left_out(model)) == 2


def test_some_models_leave_out_what_the_mask_hides():
    sizes = dict(vocab_size=16, hidden_size=8, embedding_size=8, num_hidden_layers=1, num_attention_heads=1)
    assert left_out(ElectraForPreTraining(ElectraConfig(**sizes, intermediate_size=8))) == MASKED
    columns = batch(labels=[[1, -100, 2], [0, 1, 1]], attention_mask=[[1, 1, 0], [1, 1, 0]])
    assert [count_labels(columns, which) for which in (None, FIRST, MASKED)] == [5, 3, 3]


@pytest.mark.parametrize(
    "columns, name, expected",
    [
        ({"labels": [[1, -100], [2, 3]]}, "labels", 3),
        ({"labels": [1, -100, 2]}, "labels", 2),
        ({"labels": [1, 0, 2]}, "labels", None),
        ({"tags": [[1, -100], [2, 3]], "labels": [0, 1]}, "tags", 3),
        ({"input_ids": np.ones((3, 4)), "start_positions": [0, 4, 1], "end_positions": [2, 9, 3]}, "labels", 2),
        ({"input_ids": np.ones((3, 4)), "start_positions": [0, -100, 1], "end_positions": [2, 0, 3]}, "labels", 3),
        (
            {"input_ids": np.ones((2, 4)), "start_positions": [0, -100], "end_positions": [2, 0]},
            "start_positions",
            2,
        ),
        ({"input_ids": np.ones((3, 4))}, "labels", None),
        ({"labels": [[1, -100], [2, 3]], "tags": [[1, -100], [2, 3]]}, None, None),
    ],
)
def test_a_loss_is_a_mean_over_labels_or_else_over_rows(columns, name, expected):
    assert count_labels(batch(**columns), name=name) == expected
    assert expected is None or may_have_labels(batch(**columns), name)


@pytest.mark.parametrize(
    "columns, named",
    [
        ({"input_ids": [[1, 2]], "tags": [[1, -100]]}, "'tags' holds -100"),
        ({"labels": [0, 1], "words": [[1, -100], [1, 2]]}, "'words' holds -100"),
        ({"input_ids": [[1, 2]], "start_positions": [1], "end_positions": [2]}, "within the 2 tokens of its row"),
    ],
)
def test_labels_that_nobody_counts_are_named(columns, named):
    with pytest.raises(dp.DataParallelError, match=named):
        count_labels(batch(**columns))


def labelled(rows_without_labels, first=0):
    chance = np.random.default_rng(7)
    rows = [
        (chance.integers(4, 96, 12).astype(np.int32), np.int32(-100 if row in rows_without_labels else row % 3))
        for row in range(48)
    ]
    return GeneratorDataset(rows[first:], ["input_ids", "labels"], shuffle=False).batch(8)


def test_evaluation_checkpoints_and_resuming_in_one_process(tmp_path, configured):
    configured(async_save=True, cpu_operators=False)  # as stock, below
    options = dict(
        max_steps=3,
        gradient_accumulation_steps=2,
        evaluation_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=2,
        logging_steps=1,
    )

    def run(resume=None):
        trainer = tiny_trainer(tmp_path, model=tiny_model(), dataset=labelled({0, 1, 2, 20}), **options)
        trainer.eval_dataset = labelled({3})
        result = trainer.train(resume_from_checkpoint=resume)
        return flat(trainer.model), result.training_loss, trainer.evaluate()["eval_loss"]

    whole = run()
    resumed = run(str(tmp_path / "checkpoint-2"))
    np.testing.assert_array_equal(resumed[0], whole[0])
    assert resumed[1:] == whole[1:]

    dp.uninstall()
    trainer = tiny_trainer(tmp_path, dataset=labelled({3}))
    weights = iter(np.split(whole[0], np.cumsum([p.size for p in trainer.model.parameters()])[:-1]))
    for parameter in trainer.model.parameters():
        parameter.assign_value(mindspore.Tensor(next(weights).reshape(parameter.shape)))
    assert trainer.evaluate(labelled({3}))["eval_loss"] == whole[2], "evaluation must not be weighted"


def test_the_loss_of_the_trainer_is_left_as_it_was(tmp_path, configured):
    configured(async_save=True)
    trainer = tiny_trainer(tmp_path, max_steps=1, gradient_accumulation_steps=4)
    stock = trainer.compute_loss
    trainer.train()
    assert trainer.compute_loss == stock


def test_training_in_bfloat16_is_refused_before_it_begins_where_there_is_none(tmp_path):
    class Began(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            pytest.fail("training began")

    with pytest.raises(dp.DataParallelError, match="bf16=True: MindSpore has no operators for bfloat16 on CPU"):
        tiny_trainer(tmp_path, callbacks=[Began()], bf16=True).train()


def test_a_training_step_that_scales_no_loss_is_refused(tmp_path):
    class OwnStep(Trainer):
        def training_step(self, model, inputs):
            loss = model(**inputs).loss
            self.update_gradient_by_distributed_type(model)
            return loss

    with pytest.raises(dp.DataParallelError, match=r"fp16=True has to scale each loss.*super\(\).training_step"):
        tiny_trainer(tmp_path, trainer_type=OwnStep, fp16=True).train()


def test_evaluation_in_bfloat16_is_refused_where_there_is_none(tmp_path, configured):
    configured(async_save=True)
    with pytest.raises(
        dp.DataParallelError, match="bf16_full_eval=True: MindSpore has no operators for bfloat16 on CPU"
    ):
        tiny_trainer(tmp_path, bf16_full_eval=True).evaluate(labelled(()))
