"""A tag for each word of a sentence: names of persons and places, and other entities."""

from collections import Counter, defaultdict

import numpy as np

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.entities import OUTSIDE, entities, entity_type, in_words, score_entities, score_types
from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces
from mindnlp_dp_plugin.recipes.reading.conll import ALL_SUFFIXES, TABLE_SUFFIXES, TAGS, TOKENS, read_tagged, write_conll
from mindnlp_dp_plugin.recipes.reading.decoding import decode
from mindnlp_dp_plugin.recipes.reading.lines import looks_like_conll
from mindnlp_dp_plugin.recipes.scores import MOST_MISTAKES, listed, mistake, shortened, softmax
from mindnlp_dp_plugin.recipes.tables import LabelledTexts
from mindnlp_dp_plugin.recipes.tagged import TAG_NAMES, TOKEN_NAMES, first_of, read_sentences, words_of
from mindnlp_dp_plugin.recipes.tasks import RESAMPLES, Task
from mindnlp_dp_plugin.recipes.tokens import IGNORED, words_to_tokens
from mindnlp_dp_plugin.recipes.words import remark


class TokenClassification(Task):
    """A tag for each word, scored by whole entities."""

    name = "token-classification"
    distribution = Message("Entities of each type in train")
    words = {
        "frequent_tag": Message("the most frequent tag of each word"),
        "entities": Message("Entities"),
        "type": Message("type"),
    }
    shown = ("f1", "precision", "recall")
    each_epoch = ("accuracy", *shown, "loss")
    compared = ("recall", "precision", "f1")
    best_by = ("f1", "loss")
    needs = ("seqeval",)
    auto_model = "AutoModelForTokenClassification"
    kept_facts = ("label_names", "joiner")
    refused = {"positive_label": None, "class_weights": "none"}
    refusal = Message("--{option} {given!r} is for classes of texts, and here words have tags: leave it out.")
    weighs_classes = False
    label_filling = IGNORED
    lora_type = "TOKEN_CLS"
    file_suffixes = ALL_SUFFIXES
    out_suffixes = (".conll", ".txt", ".jsonl")
    out_name = "tags.conll"

    def read(self, options):
        """Words, and the number of the tag of each, in splits; with ``--folds``, dev is part of train."""
        self.refuse(options)
        return read_sentences(options).with_dev(self.strata, options)

    def strata(self, rows):
        """1 for each sentence with an entity, 0 for the others."""
        return [int(any(tags)) for tags in rows["label"]]

    def facts(self, data: LabelledTexts, options):
        """Tags, what stands between words, and the entities of each type in each split."""
        train, names = data.splits["train"], data.label_names
        types = _types(names)
        rows = {}
        for split, sentences in data.splits.items():
            counts = Counter(kind for tags in _named(sentences["label"], names) for kind, _, _ in entities(tags))
            rows[split] = {kind: counts[kind] for kind in types}
        return {
            "label_names": names,
            "num_outputs": len(names),
            "joiner": "" if is_written_without_spaces(train["text"]) else " ",
            "rows": rows,
            "num_words": {split: sum(map(len, sentences["label"])) for split, sentences in data.splits.items()},
        }

    def describe(self, facts):
        """Sentences, words, and entities of each type."""
        return [
            tr(
                "{split}: {sentences} sentences, {words} words; entities: {entities}",
                split=split,
                sentences=facts["num_rows"][split],
                words=facts["num_words"][split],
                entities=listed(rows, len(rows)),
            )
            for split, rows in facts["rows"].items()
        ]

    def predict_baselines(self, train, scored, data, options):
        """The most frequent tag of each word."""
        return {"frequent_tag": most_frequent_tags(train, scored, data.label_names)}

    def score_baseline(self, predicted, labels, data):
        """What ``score_entities`` computes."""
        return score_entities(predicted, _named(labels, data.label_names))

    def examples(self, tokens, labels):
        """Each token that begins a word, with the word's tag."""
        pairs = [([token], tag) for row, tags in zip(tokens, labels) for token, tag in zip(row, tags) if tag != IGNORED]
        rows, tags = zip(*pairs)
        return list(rows), list(tags)

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Tokens, and the tag of each word at its first token.

        Tags of words that are cut off stand behind ``max_length``: no loss sees them, and in scores they count as
        predicted to be no entity.
        """
        columns, places, num_cut = words_to_tokens(tokenizer, rows["words"], facts["joiner"], max_length)
        columns["labels"] = []
        for tokens, firsts, tags in zip(columns["input_ids"], places, rows["label"]):
            is_cut = len(firsts) < len(tags)
            labels = np.full(max_length if is_cut else len(tokens), IGNORED)
            labels[firsts] = tags[: len(firsts)]
            columns["labels"].append([*labels.tolist(), *tags[len(firsts) :]])
        return columns, num_cut

    def inputs(self, tokenizer, rows, max_length, kept):
        """Tokens, and in ``places`` the first of each word; of words that are cut off there is none."""
        columns, places, _ = words_to_tokens(tokenizer, [words for (words,) in rows], kept["joiner"], max_length)
        return {**columns, "places": places}

    def answer_of_row(self, logits, inputs, row, kept):
        """Logits of each word; a word that was cut off is no entity."""
        return _of_words(logits, np.array(inputs["places"], int), len(row[0]), kept)

    def gather(self, rows, kept):
        """A list: sentences have different numbers of words."""
        return list(rows)

    def text_columns(self, rows):
        """The words."""
        return ["words"]

    def sample(self, texts, kept):
        """The sentence as a text."""
        return [shortened(kept["joiner"].join(texts[0]))]

    def loss(self, facts, options):
        """The cross entropy of all words, by the number of rows and the mean number of words of a row in train.

        So each word counts the same in whatever batch and on whatever rank it is, and two ranks learn what one does.
        """
        from mindnlp.core.nn import functional

        words_per_row = facts["num_words"]["train"] / facts["num_rows"]["train"]

        def cross_entropy(logits, labels):
            labels = labels[:, : logits.shape[1]]
            flat = logits.reshape(-1, logits.shape[-1]).float()
            total = functional.cross_entropy(flat, labels.reshape(-1), ignore_index=IGNORED, reduction="sum")
            return total / (len(labels) * words_per_row)

        return cross_entropy

    def scores_of(self, logits, labels, kept):
        """What ``score_entities`` computes."""
        return score_entities(*_tags(logits, labels, kept))

    def standard_error(self, logits, labels, kept):
        """That of F1, by sentences."""
        predicted, true = ([set(entities(tags)) for tags in rows] for rows in _tags(logits, labels, kept))
        counts = np.array([(2 * len(one & other), len(one) + len(other)) for one, other in zip(predicted, true)])
        draws = np.random.default_rng(0).integers(len(counts), size=(RESAMPLES, len(counts)))
        right, both = counts[draws].sum(axis=1).T
        return float(np.std(right / np.maximum(both, 1)))

    def score(self, logits, labels, texts, kept):
        """Scores over all and by type, and the sentences with the worst mistakes."""
        names = kept["label_names"]
        predicted, true = _tags(logits, labels, kept)
        found = score_entities(predicted, true)
        per_class = score_types(predicted, true, _types(names))
        wrong = [len(set(entities(one)) ^ set(entities(other))) for one, other in zip(predicted, true)]
        if isinstance(logits, np.ndarray):
            logits, labels = _by_word(logits, labels, kept)
        sure = [softmax(words).max(axis=-1).mean() if len(words) else 0 for words in logits]
        worst = sorted((row for row in range(len(true)) if wrong[row]), key=lambda row: (-wrong[row], -sure[row]))
        mistakes = []
        for row in worst[:MOST_MISTAKES]:
            (words,), joiner = texts[row], kept["joiner"]
            tagged = (in_words(words, tags[row], joiner) for tags in (true, predicted))
            mistakes.append(mistake([joiner.join(words)], *tagged))
        return {**found, "rows": len(true), "per_class": per_class, "mistakes": mistakes}

    def always(self, scores, kept):
        """Nothing, if no entity is found in any row."""
        return "" if scores["predicted"] == 0 else None

    def asked(self, texts, results):
        """Sentences: their words are what is between blanks, or each character of a language without them."""
        return [[_split(text, results)] for text in texts]

    def as_row(self, text, results):
        """A sentence, given as a text or as a list of words."""
        if isinstance(text, str):
            return (_split(text, results),)
        return tuple(text) if len(text) == 1 and not isinstance(text[0], str) else (list(text),)

    def read_asked(self, path, results, columns, label, encoding):
        """Sentences of a CoNLL file, of a table with lists of words, or of texts; with tags, if it has them."""
        table = _read_words(path, [*columns, *results["data"]["text_columns"], *TOKEN_NAMES], encoding)
        if table is None:
            texts, _, remarks = super().read_asked(path, results, columns, None, encoding)
            return self.asked([text for (text,) in texts], results), None, remarks
        tokens = first_of(table, [*columns, *results["data"]["text_columns"], *TOKEN_NAMES])
        tags = first_of(table, [label, results["data"]["label_column"], *TAG_NAMES])
        texts = [[words_of(table, tokens, row)] for row in range(len(table))]
        remarks = [
            *table.remarks,
            remark("columns_found" if tags else "text_columns_found", texts=[tokens], label=tags),
        ]
        if tags is None:
            return texts, None, remarks
        labels = [self.read_label(cell, results) for cell in table.values(tags)]
        labels = [row if row and len(row) == len(words) else None for row, (words,) in zip(labels, texts)]
        if unknown := labels.count(None):
            remarks.append(remark("unknown_labels", rows=unknown))
        return texts, labels, remarks

    def read_label(self, cell, kept):
        """The number of each word's tag."""
        names = kept["label_names"]
        if not isinstance(cell, (list, tuple)) or not set(cell) <= set(names):
            return None
        return [names.index(tag) for tag in cell]

    def predictions(self, logits, kept, all_probabilities):
        """``tags`` and their ``probabilities`` for the words, and ``entities`` with type, words and place."""
        names = kept["label_names"]
        tags = _named(map(_best, logits), names)
        chances = [softmax(words).max(axis=-1).tolist() if len(words) else [] for words in logits]
        found = [[{"type": kind, "first": first, "last": last} for kind, first, last in entities(row)] for row in tags]
        return {TAGS: tags, "probabilities": chances, "entities": found}

    def named_texts(self, texts, kept):
        """The words."""
        return {TOKENS: texts[0]}

    def in_short(self, row, kept):
        """The entities."""
        return in_words(row[TOKENS], row[TAGS], kept["joiner"])

    def text_of(self, row, kept):
        """The sentence."""
        return kept["joiner"].join(row[TOKENS])

    def write(self, path, rows, kept):
        """Words and tags as CoNLL, or all as jsonl."""
        if path.suffix.lower() == ".jsonl":
            super().write(path, rows, kept)
        else:
            write_conll(path, rows)


def most_frequent_tags(train, scored, names: list[str]) -> list[list[str]]:
    """For each sentence the tag that each word has most often in ``train``, the first tag if it is not there.

    Args:
        train: Rows with ``words`` and ``label``, the numbers of their tags.
        scored: Rows with ``words``.
        names: Of the tags.
    """
    counts = defaultdict(Counter)
    for words, tags in zip(train["words"], train["label"]):
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    best = {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in counts.items()}
    return [[names[best.get(word, 0)] for word in words] for words in scored["words"]]


def _types(names):
    return sorted({entity_type(name) for name in names} - {None})


def _of_words(logits, places, num_words, kept):
    """Logits of words, from those of tokens; O for words without a token."""
    answer = np.zeros((num_words, len(kept["label_names"])), np.float32)
    answer[:, kept["label_names"].index(OUTSIDE)] = 1.0
    seen = places[places < len(logits)]
    answer[: len(seen)] = logits[seen]
    return answer


def _by_word(logits, labels, kept):
    """Logits and tags of each row's words, from those of its tokens."""
    places = [np.flatnonzero(tags != IGNORED) for tags in labels]
    found = [_of_words(row, firsts, len(firsts), kept) for row, firsts in zip(logits, places)]
    return found, [tags[firsts].tolist() for tags, firsts in zip(labels, places)]


def _tags(logits, labels, kept):
    """The tags of each row's words: predicted, and true."""
    if isinstance(logits, np.ndarray):
        logits, labels = _by_word(logits, labels, kept)
    return _named(map(_best, logits), kept["label_names"]), _named(labels, kept["label_names"])


def _best(logits):
    return logits.argmax(axis=-1).tolist()


def _named(rows, names):
    return [[names[tag] for tag in tags] for tags in rows]


def _split(text, results):
    return text.split() if results["joiner"] else [each for each in text if not each.isspace()]


def _read_words(path, names, encoding):
    """The table of a file that holds sentences word by word; None if it holds texts."""
    if path.suffix.lower() in TABLE_SUFFIXES:
        table = read_tagged(path, encoding)
        tokens = first_of(table, names)
        has_lists = tokens is not None and any(isinstance(value, (list, tuple)) for value in table.columns[tokens])
        return table if has_lists else None
    if path.suffix.lower() == ".xlsx" or not looks_like_conll(decode(path, encoding)[0]):
        return None
    return read_tagged(path, encoding)


TASK = TokenClassification()
