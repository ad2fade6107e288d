"""Texts and words as the tokens of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

LENGTH_STEP = 16  # lengths of batches are multiples of it: little padding on CPU, few shapes to compile on Ascend
IGNORED = -100  # the label of a token that no loss and no score counts


def words_to_tokens(
    tokenizer, sentences: Sequence[Sequence[str]], joiner: str, max_length: int
) -> tuple[dict[str, list], list[list[int]], int]:
    """Tokens of sentences that are given word by word, cut to a length.

    Each word is tokenised by itself, so that it is known which tokens are its own, with any tokenizer, fast or not.

    Args:
        tokenizer: The model's.
        sentences: The words of each.
        joiner: What stands between words in a text: a blank, or nothing.
        max_length: In tokens.

    Returns:
        The columns of the model's inputs; for each sentence the place of each word's first token, of those that were
        not cut off; and the number of sentences that were cut.
    """
    pieces = {joiner * (place > 0) + word for words in sentences for place, word in enumerate(words)}
    pieces = sorted(pieces)
    found = tokenizer(pieces, add_special_tokens=False)["input_ids"] if pieces else []
    tokens_of = {piece: tokens or [tokenizer.unk_token_id] for piece, tokens in zip(pieces, found)}
    around = tokenizer.build_inputs_with_special_tokens([IGNORED])
    before = around.index(IGNORED)
    room = max_length - len(around) + 1
    rows, places, num_cut = [], [], 0
    for words in sentences:
        tokens, firsts = [], []
        for place, word in enumerate(words):
            own = tokens_of[joiner * (place > 0) + word]
            if len(tokens) + len(own) > room:
                num_cut += 1
                break
            firsts.append(before + len(tokens))
            tokens += own
        rows.append(tokenizer.build_inputs_with_special_tokens(tokens))
        places.append(firsts)
    columns = {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}
    if "token_type_ids" in tokenizer.model_input_names:
        columns["token_type_ids"] = [[0] * len(row) for row in rows]
    return columns, places, num_cut


def labelled_tokens(tokens: list[list[int]], labels: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """Each token that has a label, in a list of its own, and the labels."""
    pairs = [pair for row in zip(tokens, labels) for pair in zip(*row) if pair[1] != IGNORED]
    return [[token] for token, _ in pairs], [label for _, label in pairs]


def first_tokens(logits: np.ndarray, places: np.ndarray, num_words: int) -> np.ndarray:
    """Logits of words, from those of their first tokens; the first class, O, for words without a token."""
    answer = np.zeros((num_words, logits.shape[-1]), np.float32)
    answer[:, 0] = 1.0
    seen = places[places < len(logits)]
    answer[: len(seen)] = logits[seen]
    return answer


def by_word(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Logits and tags of each row's words, from those of its tokens if the Trainer made them, in an array."""
    if not isinstance(logits, np.ndarray):
        return logits, labels
    places = [np.flatnonzero(tags != IGNORED) for tags in labels]
    found = [first_tokens(row, firsts, len(firsts)) for row, firsts in zip(logits, places)]
    return found, [tags[firsts].tolist() for tags, firsts in zip(labels, places)]


def token_losses(logits: Any, labels: Any) -> Any:
    """The cross entropy of each token, 0 where there is no label; of the labels' shape."""
    from mindnlp.core.nn import functional

    flat = logits.reshape(-1, logits.shape[-1]).float()
    losses = functional.cross_entropy(flat, labels.reshape(-1), ignore_index=IGNORED, reduction="none")
    return losses.reshape(labels.shape)


def token_scores(logits: Any, labels: Any) -> Any:
    """For each row the sum of its tokens' losses, how many have a label, and of how many it was the likeliest."""
    from mindnlp.core import ops

    counted = labels != IGNORED
    right = (logits.argmax(-1) == labels) & counted
    columns = (token_losses(logits, labels).sum(1), counted.sum(1), right.sum(1))
    return ops.stack([column.float() for column in columns], 1)


def mean_over_seen(logits: Any, labels: Any) -> Any:
    """The mean over the labels of all ranks that have logits; labels of words that were cut off stand behind them."""
    from mindnlp_dp_plugin.distributed.gradients import global_mean  # it has MindSpore

    seen = labels[:, : logits.shape[1]]
    return global_mean(token_losses(logits, seen).sum(), (seen != IGNORED).sum().float())
