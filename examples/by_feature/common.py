"""What the examples in this folder share: generated reviews and a small model that nobody has trained yet."""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

import mindspore
import numpy as np
from mindnlp.dataset import load_dataset
from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer
from mindspore.dataset import transforms

from mindnlp_dp_plugin.recipes import save_offline_inputs

with dp.main_process_first():
    FILES = save_offline_inputs("by_feature_inputs", num_reviews=400)
    REVIEWS = load_dataset(FILES["generated"], split=["train", "test"])
TOKENIZER = AutoTokenizer.from_pretrained(FILES["small-roberta"])


def small_model():
    return AutoModelForSequenceClassification.from_pretrained(FILES["small-roberta"], num_labels=2)


def rows(split):
    """Tokenized rows of different lengths, not batched yet; ``split`` is ``train`` or ``test``."""

    def tokenize(text):
        tokens = TOKENIZER(str(text))
        return np.array(tokens["input_ids"], np.int32), np.array(tokens["attention_mask"], np.int32)

    tokenized = REVIEWS[split].map(tokenize, "text", ["input_ids", "attention_mask"])
    return tokenized.map(transforms.TypeCast(mindspore.int32), "label", "labels")


def batches(split):
    """Batches of 8 rows, each padded to its longest row."""
    padding = dp.DynamicPadding({"input_ids": TOKENIZER.pad_token_id, "attention_mask": 0})
    return rows(split).batch(8, per_batch_map=padding, input_columns=padding.columns)
