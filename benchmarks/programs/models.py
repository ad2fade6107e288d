"""The models that are timed, and batches for them."""

import mindspore
import numpy as np
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

from tests.programs.tiny import SIZES

# What changes in BertConfig, whose own sizes are BERT-base's; rows of a batch; tokens of a row.
MODELS = {
    "bert-base": ({}, 8, 128),
    "bert-9m": (
        dict(vocab_size=22000, num_hidden_layers=4, hidden_size=256, intermediate_size=1024, num_attention_heads=4),
        4,
        512,
    ),
    "bert-4": (dict(num_hidden_layers=4, hidden_size=256, intermediate_size=1024, num_attention_heads=4), 16, 64),
    "tiny": (SIZES, 8, 12),
}


def make(name):
    """The model, the same on every rank and in every run."""
    mindspore.set_seed(0)
    np.random.seed(0)
    return BertForSequenceClassification(BertConfig(**MODELS[name][0]))


def rows(name, num_rows):
    """Random tokens and one of two labels each."""
    sizes, _, num_tokens = MODELS[name]
    chance = np.random.default_rng(1)
    words = sizes.get("vocab_size", 30522)
    return [
        (chance.integers(4, words, num_tokens).astype(np.int32), np.int32(chance.integers(2))) for _ in range(num_rows)
    ]


def dataset(name, num_rows, batch_size=None):
    """The rows in batches."""
    source = GeneratorDataset(rows(name, num_rows), ["input_ids", "labels"], shuffle=False)
    return source.batch(batch_size or MODELS[name][1])
