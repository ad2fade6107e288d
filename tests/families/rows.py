"""Rows to train a head on: every row has as many labels that count as any other, so that means of means are means."""

import inspect

import numpy as np

from tests.families.configs import BOS, EOS, FIRST_WORD, MARK, NUM_LABELS, PAD, VOCABULARY

LENGTH = 16
NUM_CHOICES = 2
NUM_PREDICTED = 4
IGNORED = -100
OF_FOLDER = {"bros": lambda words: {"bbox": np.tile(np.float32(words / VOCABULARY)[:, None], 4)}}  # boxes of words


def text_row(chance, is_padded):
    """A question and a context as RoBERTa joins them, the second half of the context missing from padded rows."""
    words = chance.integers(FIRST_WORD, VOCABULARY, LENGTH)
    words[0], words[1], words[5], words[6], words[-1] = BOS, MARK, EOS, EOS, EOS
    if is_padded:
        words[-4:] = EOS, PAD, PAD, PAD
    return words


def labels_of(head, words, chance):
    """The columns that a head's loss is made from."""
    if head == "question_answering":
        start = chance.integers(7, 10)
        return {"start_positions": start, "end_positions": start + chance.integers(3)}
    if head == "regression":
        return {"labels": np.float32(chance.normal())}
    if head == "multi_label":
        return {"labels": chance.integers(0, 2, NUM_LABELS).astype(np.float32)}
    if head == "sequence_classification":
        return {"labels": chance.integers(NUM_LABELS)}
    if head == "token_classification":
        return {"labels": chance.integers(0, NUM_LABELS, LENGTH)}
    if head == "masked_lm":
        labels = np.full(LENGTH, IGNORED)
        places = chance.choice(np.arange(1, LENGTH - 4), NUM_PREDICTED, replace=False)
        labels[places] = words[places]
        words[places] = MARK
        return {"labels": labels}
    return {"labels": words.copy()}


def rows(folder, model, head, num_rows):
    """As many rows for a model: dicts of columns with int64 and float32 in them, the same whenever asked.

    Every second pair is padded: two ranks, who get rows in turn, have as many words as each other in every batch.
    """
    chance = np.random.default_rng(11)
    takes = inspect.signature(model.forward).parameters
    return [row(folder, takes, head, chance, is_padded=number % 4 > 1) for number in range(num_rows)]


def row(folder, takes, head, chance, is_padded):
    if head == "multiple_choice":
        words = np.stack([text_row(chance, is_padded) for _ in range(NUM_CHOICES)])
        labels = {"labels": chance.integers(NUM_CHOICES)}
    else:
        words = text_row(chance, is_padded)
        labels = labels_of(head, words, chance)
    columns = {"input_ids": words, **OF_FOLDER.get(folder, lambda words: {})(words)}
    if "attention_mask" in takes:
        columns["attention_mask"] = (words != PAD).astype(np.int64)
    return columns | labels
