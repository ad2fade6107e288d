"""A classifier, data and a Trainer small enough for a test, the same wherever they are built."""

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import DynamicPadding
from tests.programs.noted import digest_of

SIZES = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def seed_everything(seed):
    np.random.seed(seed)
    mindspore.set_seed(seed)


def tiny_model(seed=3, **changes):
    seed_everything(seed)
    return BertForSequenceClassification(BertConfig(**{**SIZES, "num_labels": 3, **changes}))


def without_dropout(seed=3, **changes):
    return tiny_model(seed, **NO_DROPOUT, **changes)


def with_lora(model, dropout=0.0):
    return get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=dropout))


def with_frozen_embeddings(model):
    for parameter in model.bert.embeddings.parameters():
        parameter.requires_grad = False
    return model


def row_of(chance, length=12):
    """Tokens, and one of 3 labels."""
    return chance.integers(4, 96, length).astype(np.int32), np.int32(chance.integers(3))


def tiny_rows(num_rows, shuffle=False):
    """Rows of 12 tokens with one of 3 labels, not yet batched."""
    chance = np.random.default_rng(7)
    return GeneratorDataset([row_of(chance) for _ in range(num_rows)], ["input_ids", "labels"], shuffle=shuffle)


def tiny_dataset(num_rows=64, batch_size=8, **options):
    return tiny_rows(num_rows).batch(batch_size, **options)


def of_many_lengths(num_rows, batch_size):
    """Shuffled rows of 3 to 12 tokens, in batches as long as their longest row."""
    chance = np.random.default_rng(7)
    rows = [row_of(chance, length) for length in chance.integers(3, 13, num_rows)]
    rows = [(tokens, np.ones_like(tokens), label) for tokens, label in rows]
    padding = DynamicPadding({"input_ids": 0, "attention_mask": 0})
    source = GeneratorDataset(rows, ["input_ids", "attention_mask", "labels"])
    return source.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)


class Digests(TrainerCallback):
    """Of the parameters, after each step."""

    def __init__(self):
        self.found = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.found.append(digest_of(model))


class Losses(TrainerCallback):
    """Of each step; the log itself is rounded to four digits. Its ``trainer`` is to be set."""

    def __init__(self):
        self.sums = []

    def on_log(self, args, state, control, **kwargs):
        if len(self.sums) < state.global_step:
            self.sums.append(self.trainer._total_loss_scalar)

    @property
    def of_steps(self):
        return np.diff(self.sums, prepend=0.0)


def tiny_trainer(output_dir, model=None, dataset=None, trainer_type=Trainer, callbacks=None, **arguments):
    """A Trainer, which its callbacks know as ``trainer``."""
    defaults = dict(max_steps=4, logging_steps=2, save_strategy="no", disable_tqdm=True, learning_rate=1e-3)
    trainer = trainer_type(
        model=model or tiny_model(),
        args=TrainingArguments(output_dir=str(output_dir), **{**defaults, **arguments}),
        train_dataset=tiny_dataset() if dataset is None else dataset,
        callbacks=callbacks,
    )
    for callback in callbacks or ():
        callback.trainer = trainer
    return trainer
