"""A RoBERTa small enough to train from nothing on a CPU, with a tokenizer learnt from the texts it is to read."""

from collections.abc import Iterable
from pathlib import Path

SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def save_small_roberta(folder: str | Path, texts: Iterable[str], num_labels: int, max_length: int = 128) -> None:
    """Leave a model folder as ``from_pretrained`` reads it: untrained weights, and a byte-level BPE tokenizer.

    To be called on one rank.

    Args:
        folder: Where to; made if it is not there.
        texts: What the tokenizer learns from.
        num_labels: How many classes the model tells apart.
        max_length: The longest text in tokens.
    """
    from mindnlp.transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizerFast
    from tokenizers import ByteLevelBPETokenizer

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts, vocab_size=2000, min_frequency=2, special_tokens=SPECIAL_TOKENS, show_progress=False)
    bpe.save_model(str(folder))
    tokenizer = RobertaTokenizerFast(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=max_length
    )
    tokenizer.save_pretrained(str(folder))
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=max_length + 2,  # RoBERTa counts positions from pad_token_id + 1
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        num_labels=num_labels,
    )
    RobertaForSequenceClassification(config).save_pretrained(str(folder))
