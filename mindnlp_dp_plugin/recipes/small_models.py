"""Models small enough to train from nothing on a CPU, with a tokenizer learnt from the texts they are to read."""

from collections.abc import Iterable
from pathlib import Path

SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCABULARY = 4000
SIZE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


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
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bpe, byte_level = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
    # Where words have no spaces between them, characters stand alone: a whole clause as a word takes BPE minutes.
    alone = pre_tokenizers.Split(Regex(r"[\p{Han}\p{Hiragana}\p{Katakana}]"), "isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence([alone, byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.model.save(str(folder))
    tokenizer = RobertaTokenizerFast(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=max_length
    )
    tokenizer.save_pretrained(str(folder))
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=max_length + 2,  # RoBERTa counts positions from pad_token_id + 1
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        num_labels=num_labels,
        **SIZE,
    )
    RobertaForSequenceClassification(config).save_pretrained(str(folder))


def save_small_bert(folder: str | Path, texts: Iterable[str], num_labels: int, max_length: int = 128) -> None:
    """The same with a BERT, and a WordPiece tokenizer that takes each Chinese character for a word, as BERT's does.

    To be called on one rank.

    Args:
        folder: Where to; made if it is not there.
        texts: What the tokenizer learns from.
        num_labels: How many classes the model tells apart.
        max_length: The longest text in tokens.
    """
    from mindnlp.transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
    from tokenizers import BertWordPieceTokenizer

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(
        texts, vocab_size=VOCABULARY, limit_alphabet=VOCABULARY // 2, min_frequency=2, show_progress=False
    )
    pieces.save_model(str(folder))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=max_length)
    tokenizer.save_pretrained(str(folder))
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=max_length,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=num_labels,
        **SIZE,
    )
    BertForSequenceClassification(config).save_pretrained(str(folder))


SAVERS = {"roberta": save_small_roberta, "bert": save_small_bert}
