"""Models small enough to train from scratch on a CPU, with a tokenizer learned from the given texts."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT_SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
END_OF_TEXT, CHAT_MARKS = "<|endoftext|>", ["<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MOST_NEW_TOKENS = 64  # of an answer, unless more are asked for: positions after the longest prompt
VOCABULARY = 8000
PARALLELISM = "TOKENIZERS_PARALLELISM"
EMBEDDINGS_STD = 0.02  # small: they are normalised next, and what is small is learnt faster
COUNTS_SHARE = 0.3  # of an embedding of length 0.16: what a token says of the class outweighs what it is
POSITIONS_SHARE = 0.3
SIZE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    # 0.02 is for layers of 768: in those of 64 attention stays even, and never learns which words belong together.
    "initializer_range": 0.1,
}
CLASSIFIER = "ForSequenceClassification"


def save_small_roberta(folder: str | Path, texts: Iterable[str], num_labels: int, max_length: int = 128) -> None:
    """Write a model folder for ``from_pretrained``: untrained weights and a byte-level BPE tokenizer.

    Call it on one rank.

    Args:
        folder: The folder to write.
        texts: The texts from which the tokenizer learns.
        num_labels: Number of classes.
        max_length: Maximum length of a text in tokens.
    """
    from mindnlp.transformers import RobertaTokenizerFast

    tokenizer = RobertaTokenizerFast(*_learn_bpe(folder, texts, SPECIAL_TOKENS)[1], model_max_length=max_length)
    positions = max_length + 2  # RoBERTa counts positions from pad_token_id + 1
    _save("Roberta", CLASSIFIER, tokenizer, folder, max_position_embeddings=positions, num_labels=num_labels, **SIZE)


def save_small_bert(folder: str | Path, texts: Iterable[str], num_labels: int, max_length: int = 128) -> None:
    """Save a small BERT that is not trained, and a WordPiece vocabulary of frequent words and single characters.

    Call it on one rank, with the arguments of ``save_small_roberta``.
    """
    from mindnlp.transformers import BertTokenizerFast

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(_word_pieces(texts)) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=max_length)
    _save("Bert", CLASSIFIER, tokenizer, folder, max_position_embeddings=max_length, num_labels=num_labels, **SIZE)


def save_small_gpt2(folder: str | Path, texts: Iterable[str], num_labels: None = None, max_length: int = 128) -> None:
    """Write a folder with an untrained GPT-2 and a byte-level BPE tokenizer.

    Call it on one rank, with the arguments of ``save_small_roberta``; ``num_labels`` has no meaning.
    """
    from mindnlp.transformers import GPT2TokenizerFast

    tokenizer = GPT2TokenizerFast(*_learn_bpe(folder, texts, [END_OF_TEXT])[1], model_max_length=max_length)
    size = {name: value for name, value in SIZE.items() if name != "intermediate_size"}  # its own is four times as wide
    _save("GPT2", "LMHeadModel", tokenizer, folder, max_position_embeddings=max_length + MOST_NEW_TOKENS, **size)


def save_small_qwen2(folder: str | Path, texts: Iterable[str], num_labels: None = None, max_length: int = 128) -> None:
    """Save a small Qwen2 that is not trained, and a tokenizer with the chat template of its family."""
    from mindnlp.transformers import Qwen2TokenizerFast

    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=_learn_bpe(folder, texts, [END_OF_TEXT, *CHAT_MARKS])[0],
        eos_token=CHAT_MARKS[1],
        pad_token=END_OF_TEXT,
        additional_special_tokens=CHAT_MARKS,
        model_max_length=max_length,
        chat_template=CHAT_TEMPLATE,
    )
    size = {**SIZE, "num_key_value_heads": SIZE["num_attention_heads"] // 2, "tie_word_embeddings": True}
    size |= {"pad_token_id": None, "bos_token_id": tokenizer.pad_token_id}  # as in the models of its family
    _save("Qwen2", "ForCausalLM", tokenizer, folder, max_position_embeddings=max_length + MOST_NEW_TOKENS, **size)


def _save(family, head, tokenizer, folder, **settings):
    """Save a tokenizer and a new model; embeddings of a classifier are smaller than other weights."""
    from mindnlp import transformers

    tokenizer.save_pretrained(str(folder))
    named = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = getattr(transformers, f"{family}Config")(vocab_size=len(tokenizer), **{**named, **settings})
    model = getattr(transformers, family + head)(config)
    for weight in _embeddings(model) if head == CLASSIFIER else ():
        weight.assign_value(weight * (EMBEDDINGS_STD / config.initializer_range))
    model.save_pretrained(str(folder))


def _embeddings(model):
    """Those of words, positions and kinds of tokens."""
    found = getattr(model, model.base_model_prefix).embeddings
    return found.word_embeddings.weight, found.position_embeddings.weight, found.token_type_embeddings.weight


def _learn_bpe(folder, texts, special_tokens):
    """A byte-level tokenizer, learnt from texts, and the files with its tokens and merges."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe, byte_level = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
    # Where words have no spaces between them, a clause is taken in pieces: as a whole it takes BPE minutes.
    pieces = pre_tokenizers.Split(Regex(r"[\p{Han}\p{Hiragana}\p{Katakana}]{1,8}"), "isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pieces, byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=special_tokens,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    # MindNLP asks ``tokenizers`` for its way of one thread, which takes eight times as long for the same merges.
    before = os.environ.get(PARALLELISM)
    os.environ[PARALLELISM] = "true"
    try:
        bpe.train_from_iterator(texts, trainer)
    finally:
        os.environ.pop(PARALLELISM) if before is None else os.environ.update({PARALLELISM: before})
    bpe.decoder = decoders.ByteLevel()
    Path(folder).mkdir(parents=True, exist_ok=True)
    return bpe, bpe.model.save(str(folder))


def _word_pieces(texts):
    """The vocabulary, the same for the same texts, which that of ``tokenizers``' own WordPiece trainer is not."""
    from tokenizers import normalizers, pre_tokenizers

    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    characters = Counter(character for word in words for character in word)
    kept = [character for character, _ in characters.most_common(VOCABULARY // 2)]
    pieces = [*BERT_SPECIAL_TOKENS, *kept, *(f"##{character}" for character in kept if character.isalnum())]
    whole = [word for word, count in words.most_common() if count > 1 and len(word) > 1]
    return pieces + whole[: max(0, VOCABULARY - len(pieces))]


def begin_with_counts(model, rows: list[list[int]], labels: list[int], seed: int = 0) -> None:
    """Put into an untrained model's word embeddings how much more often each token occurs in which class.

    A few thousand rows are too few to learn that by gradient descent: with it the small models do as well as linear
    ones on the same counts (Wang and Manning, 2012), without it worse.

    Args:
        model: With embeddings as BERT's.
        rows: Tokens; a training row may stand here more than once, or in parts.
        labels: The class of each.
        seed: Fixes the directions in which the classes lie.
    """
    import mindspore
    import numpy as np

    words, positions, _ = _embeddings(model)
    counts = np.ones((max(labels) + 1, words.shape[0]))
    for tokens, label in zip(rows, labels):
        counts[label, list(set(tokens))] += 1
    shares = counts / (np.bincount(labels, minlength=len(counts)) + 2)[:, None]
    odds = np.log(shares) - np.log1p(-np.minimum(shares, 0.999))
    classes, strengths, tokens = np.linalg.svd(odds - odds.mean(axis=0), full_matrices=False)
    features = (tokens.T * strengths)[:, : words.shape[1] // 2]
    features /= np.sqrt((features**2).sum(axis=1).mean()) + 1e-12
    directions, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(words.shape[1],) * 2))
    begun = words.asnumpy() + COUNTS_SHARE * features @ directions[: features.shape[1]]
    begun[model.config.pad_token_id] = 0
    words.assign_value(mindspore.Tensor(begun, words.dtype))
    positions.assign_value(positions * POSITIONS_SHARE)


SAVERS = {
    "small-roberta": save_small_roberta,
    "small-bert": save_small_bert,
    "small-gpt2": save_small_gpt2,
    "small-qwen2": save_small_qwen2,
}
