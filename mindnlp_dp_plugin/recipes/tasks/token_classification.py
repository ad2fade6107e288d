"""A tag for each word of a sentence: names of persons and places, and other entities."""

from collections import Counter

import numpy as np

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes import entities, scores
from mindnlp_dp_plugin.recipes.languages import joiner_of
from mindnlp_dp_plugin.recipes.reading.conll import ALL_SUFFIXES, TAGS, TOKENS, write_conll
from mindnlp_dp_plugin.recipes.tagged import read_asked_sentences, read_sentences
from mindnlp_dp_plugin.recipes.tasks import RESAMPLES, Task
from mindnlp_dp_plugin.recipes.tokens import IGNORED, first_tokens, mean_over, tags_of_tokens, words_to_tokens


class TokenClassification(Task):
    """A tag for each word, scored by whole entities."""

    name = "token-classification"
    distribution = Message("Entities of each type in train")
    shown = ("f1", "precision", "recall")
    best_by = ("f1", "loss")
    auto_model = "AutoModelForTokenClassification"
    kept_facts = ("label_names", "joiner")
    label_filling = IGNORED
    lora_type = "TOKEN_CLS"
    file_suffixes = ALL_SUFFIXES
    out_suffixes = (".conll", ".txt", ".jsonl")
    out_name = "tags.conll"

    def read(self, options):
        """Words, and the number of the tag of each, in splits; with ``--folds``, dev is part of train."""
        return read_sentences(options).with_dev(self.strata, options)

    def strata(self, rows):
        """1 for each sentence with an entity, 0 for the others."""
        return [int(any(tags)) for tags in rows["label"]]

    def facts(self, data, options):
        """Tags, what stands between words, and the entities of each type in each split."""
        names, counts = data.label_names, {}
        for split, rows in data.splits.items():
            found = Counter(kind for tags in _named(rows["label"], names) for kind, *_ in entities.entities(tags))
            counts[split] = {kind: found[kind] for kind in entities.types_of(names)}
        return {
            "label_names": names,
            "num_outputs": len(names),
            "joiner": joiner_of(data.splits["train"]["text"]),
            "rows": counts,
            "num_words": {split: sum(map(len, rows["label"])) for split, rows in data.splits.items()},
        }

    def describe(self, facts):
        """Sentences, words, and entities of each type."""
        line, lines = Message("{split}: {sentences} sentences, {words} words; entities: {entities}"), []
        for split, rows in facts["rows"].items():
            counts = {"sentences": facts["num_rows"][split], "words": facts["num_words"][split]}
            lines.append(tr(line, split=split, entities=scores.listed(rows, len(rows)), **counts))
        return lines

    def predict_baselines(self, train, scored, data, options):
        """The most frequent tag of each word."""
        return {"frequent_tag": entities.most_frequent_tags(train, scored)}

    def examples(self, tokens, labels):
        """Each token that begins a word, with the word's tag."""
        pairs = [([token], tag) for row, tags in zip(tokens, labels) for token, tag in zip(row, tags) if tag != IGNORED]
        rows, tags = zip(*pairs)
        return list(rows), list(tags)

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Tokens, and the tag of each word at its first token."""
        columns, places, num_cut = words_to_tokens(tokenizer, rows["words"], facts["joiner"], max_length)
        of_rows = zip(columns["input_ids"], places, rows["label"])
        columns["labels"] = [tags_of_tokens(len(tokens), *row, max_length) for tokens, *row in of_rows]
        return columns, num_cut

    def inputs(self, tokenizer, rows, max_length, kept):
        """Tokens, and in ``places`` the first of each word; of words that are cut off there is none."""
        columns, places, _ = words_to_tokens(tokenizer, [words for (words,) in rows], kept["joiner"], max_length)
        return {**columns, "places": places}

    def answer_of_row(self, logits, inputs, row, kept):
        """Logits of each word; a word that was cut off is no entity."""
        return first_tokens(logits, np.array(inputs["places"], int), len(row[0]))

    def gather(self, rows, kept):
        """A list: sentences have different numbers of words."""
        return list(rows)

    def text_columns(self, rows):
        """The words."""
        return ["words"]

    def sample(self, texts, kept):
        """The sentence as a text."""
        return super().sample((kept["joiner"].join(texts[0]),), kept)

    def loss(self, facts, options):
        """The cross entropy of all words, by the number of rows and the mean number of words of a row in train."""
        return mean_over(facts["num_words"]["train"] / facts["num_rows"]["train"])

    def choose(self, logits, labels, kept):
        """The tags of each row's words."""
        logits, labels = _by_word(logits, labels)
        return [words.argmax(axis=-1).tolist() for words in logits], labels

    def compare(self, predicted, labels, kept):
        """What ``score_entities`` computes."""
        return entities.score_entities(*(_named(rows, kept["label_names"]) for rows in (predicted, labels)))

    def standard_error(self, logits, labels, kept):
        """That of F1, by sentences."""
        tagged = (_named(rows, kept["label_names"]) for rows in self.choose(logits, labels, kept))
        pairs = zip(*([set(entities.entities(tags)) for tags in rows] for rows in tagged))
        counts = np.array([(2 * len(one & other), len(one) + len(other)) for one, other in pairs])
        draws = np.random.default_rng(0).integers(len(counts), size=(RESAMPLES, len(counts)))
        right, both = counts[draws].sum(axis=1).T
        return float(np.std(right / np.maximum(both, 1)))

    def details(self, logits, labels, texts, kept):
        """Scores by type, and the sentences with the worst mistakes: the most entities, then the surest."""
        names, joiner = kept["label_names"], kept["joiner"]
        predicted, true = (_named(rows, names) for rows in self.choose(logits, labels, kept))
        sure = [scores.softmax(words).max(axis=-1).mean() if len(words) else 0 for words in _by_word(logits, labels)[0]]
        wrong = [
            len(set(entities.entities(one)) ^ set(entities.entities(other))) for one, other in zip(predicted, true)
        ]
        worst = sorted((row for row in range(len(true)) if wrong[row]), key=lambda row: (-wrong[row], -sure[row]))
        mistakes = []
        for row in worst[: scores.MOST_MISTAKES]:
            (words,) = texts[row]
            tagged = (entities.in_words(words, tags[row], joiner) for tags in (true, predicted))
            mistakes.append(scores.mistake([joiner.join(words)], *tagged))
        return {"per_class": entities.score_types(predicted, true, entities.types_of(names)), "mistakes": mistakes}

    def always(self, found, kept):
        """Nothing, if no entity is found in any row."""
        return "" if found["predicted"] == 0 else None

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
        if found := read_asked_sentences(self, path, results, columns, label, encoding):
            return found
        texts, _, remarks = super().read_asked(path, results, columns, None, encoding)
        return self.asked([text for (text,) in texts], results), None, remarks

    def read_label(self, cell, kept):
        """The number of each word's tag."""
        names = kept["label_names"]
        is_known = isinstance(cell, (list, tuple)) and set(cell) <= set(names)
        return [names.index(tag) for tag in cell] if is_known else None

    def predictions(self, logits, kept, all_probabilities):
        """``tags`` and their ``probabilities`` for the words, and ``entities`` with type, words and place."""
        tags = _named([words.argmax(axis=-1) for words in logits], kept["label_names"])
        chances = [scores.softmax(words).max(axis=-1).tolist() if len(words) else [] for words in logits]
        found = [[dict(zip(("type", "first", "last"), each)) for each in entities.entities(row)] for row in tags]
        return {TAGS: tags, "probabilities": chances, "entities": found}

    def named_texts(self, texts, kept):
        """The words."""
        return {TOKENS: texts[0]}

    def in_short(self, row, kept):
        """The entities."""
        return entities.in_words(row[TOKENS], row[TAGS], kept["joiner"])

    def text_of(self, row, kept):
        """The sentence."""
        return kept["joiner"].join(row[TOKENS])

    def write(self, path, rows, kept):
        """Words and tags as CoNLL, or all as jsonl."""
        return super().write(path, rows, kept) if path.suffix.lower() == ".jsonl" else write_conll(path, rows)


def _by_word(logits, labels):
    """Logits and tags of each row's words, from those of its tokens if the Trainer made them."""
    if not isinstance(logits, np.ndarray):
        return logits, labels
    places = [np.flatnonzero(tags != IGNORED) for tags in labels]
    found = [first_tokens(row, firsts, len(firsts)) for row, firsts in zip(logits, places)]
    return found, [tags[firsts].tolist() for tags, firsts in zip(labels, places)]


def _named(rows, names):
    return [[names[tag] for tag in tags] for tags in rows]


def _split(text, results):
    return text.split() if results["joiner"] else [each for each in text if not each.isspace()]


TASK = TokenClassification()
