"""A Llama, and sentences for it, small enough for a test."""

import numpy as np
from mindnlp.transformers import LlamaConfig, LlamaForCausalLM

from tests.programs.tiny import SIZES, seed_everything


def sentences(lengths):
    """Rows to predict words in: of each row the first words have no label."""
    chance = np.random.default_rng(5)
    for length in lengths:
        words = chance.integers(5, 96, 12).astype(np.int32)
        yield words, np.where(np.arange(12) < 12 - length, -100, words).astype(np.int32)


def llama():
    seed_everything(4)
    sizes = dict(num_key_value_heads=1, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=32)
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **sizes}))
