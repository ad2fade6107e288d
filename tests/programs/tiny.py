"""A classifier, data and a Trainer small enough for a test, the same wherever they are built."""

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

SIZES = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def seed_everything(seed):
    np.random.seed(seed)
    mindspore.set_seed(seed)


def tiny_model(seed=3, **changes):
    seed_everything(seed)
    return BertForSequenceClassification(BertConfig(**{**SIZES, "num_labels": 3, **changes}))


def tiny_rows(num_rows, shuffle=False):
    """Rows of 12 tokens with one of 3 labels, not yet batched."""
    chance = np.random.default_rng(7)
    rows = [
        (chance.integers(4, 96, 12).astype(np.int32), np.int32(chance.integers(3)))
        for _ in range(num_rows)
    ]  # fmt: skip
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=shuffle)


def tiny_dataset(num_rows=64, batch_size=8, **options):
    return tiny_rows(num_rows).batch(batch_size, **options)


def tiny_trainer(output_dir, model=None, dataset=None, trainer_type=Trainer, callbacks=None, **arguments):
    defaults = dict(max_steps=4, logging_steps=2, save_strategy="no", disable_tqdm=True, learning_rate=1e-3)
    return trainer_type(
        model=model or tiny_model(),
        args=TrainingArguments(output_dir=str(output_dir), **{**defaults, **arguments}),
        train_dataset=tiny_dataset() if dataset is None else dataset,
        callbacks=callbacks,
    )
