"""A tag for each word of a sentence: names of persons and places, and other entities."""

from collections import Counter, defaultdict

import numpy as np

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes import entities, scores, tokens
from mindnlp_dp_plugin.recipes.conll import TAGS, TOKENS
from mindnlp_dp_plugin.recipes.files import is_list
from mindnlp_dp_plugin.recipes.languages import joiner_of
from mindnlp_dp_plugin.recipes.tagged import read_sentences, words_of
from mindnlp_dp_plugin.recipes.tasks import RESAMPLES, Task


class TokenClassification(Task):
    """A tag for each word, scored by whole entities."""

    name = "token-classification"
    distribution = Message("Entities of each type")
    shown = ("f1", "precision", "recall")
    best_by = ("f1", "loss")
    labelled = staticmethod(read_sentences)
    examples = staticmethod(tokens.labelled_tokens)
    auto_model = "AutoModelForTokenClassification"
    label_filling = tokens.IGNORED
    lora_type = "TOKEN_CLS"
    takes_lists = reads_conll = True
    out_suffixes = (".conll", ".txt", ".jsonl")

    def strata(self, rows):
        """1 for each sentence with an entity, 0 for the others."""
        return [int(any(tags)) for tags in rows["label"]]

    def facts(self, data, options):
        """Tags, what stands between words, and the entities of each type in each split."""
        tags, names = {split: rows["label"] for split, rows in data.splits.items()}, data.label_names
        return {
            "label_names": names,
            "joiner": joiner_of(data.splits["train"]["text"]),
            "rows": {split: entities.count_types(of, names) for split, of in tags.items()},
        }

    def predict_baselines(self, train, scored, data, options):
        """The most frequent tag of each word; of one that is not in train the first, O."""
        counts = defaultdict(Counter)
        for words, tags in zip(train["words"], train["label"]):
            for word, tag in zip(words, tags):
                counts[word][tag] += 1
        best = {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in counts.items()}
        return {"frequent_tag": [[best.get(word, 0) for word in words] for words in scored["words"]]}

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Tokens, and the tag of each word at its first token."""
        columns, places, num_cut = tokens.words_to_tokens(tokenizer, rows["words"], facts["joiner"], max_length)
        columns["labels"] = []
        for ids, firsts, tags in zip(columns["input_ids"], places, rows["label"]):
            # Tags of words that are cut off stand behind max_length: no loss sees them, and scores take them for O.
            labels = np.full(max_length if len(firsts) < len(tags) else len(ids), tokens.IGNORED)
            labels[firsts] = tags[: len(firsts)]
            columns["labels"].append([*labels.tolist(), *tags[len(firsts) :]])
        return columns, num_cut

    def inputs(self, tokenizer, rows, max_length, kept):
        """Tokens, and in ``places`` the first of each word; of words that are cut off there is none."""
        columns, places, _ = tokens.words_to_tokens(tokenizer, [words for (words,) in rows], kept["joiner"], max_length)
        return {**columns, "places": places}

    def answer(self, model, tokenizer, inputs, rows, kept):
        """Logits of each word; a word that was cut off is no entity."""
        found = zip(super().answer(model, tokenizer, inputs, rows, kept), inputs, rows)
        return [tokens.first_tokens(logits, np.array(of["places"], int), len(words)) for logits, of, (words,) in found]

    def loss(self, facts, options):
        """The model's own; where words are cut off, whose tags ``labels`` hold, a mean over those that are left."""
        return tokens.mean_over_seen if any(facts["cut_texts"].values()) else None

    def choose(self, logits, labels, kept):
        """The tags of each row's words."""
        logits, labels = tokens.by_word(logits, labels)
        return [words.argmax(axis=-1).tolist() for words in logits], labels

    def compare(self, predicted, labels, kept):
        """Those of whole entities, and the accuracy of words."""
        return entities.Compared(*_named(predicted, labels, kept)).scores()

    def standard_error(self, logits, labels, kept):
        """That of F1, by sentences."""
        return entities.Compared(*_named(*self.choose(logits, labels, kept), kept)).error(RESAMPLES)

    def details(self, logits, labels, texts, kept):
        """Scores by type, and the sentences with the worst mistakes: the most entities, then the surest."""
        predicted, true = _named(*self.choose(logits, labels, kept), kept)
        compared = entities.Compared(predicted, true)
        sure = [np.mean(row or [0]) for row in scores.confidences(tokens.by_word(logits, labels)[0])]
        worst, joiner = compared.worst(sure)[: scores.MOST_MISTAKES], kept["joiner"]
        words = [each[-1] for each in texts]
        told = [{row: entities.in_words(words[row], tags[row], joiner) for row in worst} for tags in (true, predicted)]
        shown = scores.mistakes(worst, [[joiner.join(each)] for each in words], label=told[0], predicted=told[1])
        return {"per_class": compared.types(kept["label_names"]), "mistakes": shown}

    def always(self, found, kept):
        """Nothing, if no entity is found in any row."""
        return "" if found["predicted"] == 0 else None

    def as_row(self, text, results):
        """A sentence, given as a text, whose words are between blanks or, without them, each character; or as words."""
        (words,) = text if isinstance(text, tuple) and len(text) == 1 else (text,)
        if isinstance(words, str):
            words = words.split() if results["joiner"] else [each for each in words if not each.isspace()]
        return (words_of(words),)

    def read_label(self, cell, kept):
        """The number of each word's tag."""
        names = kept["label_names"]
        return [names.index(tag) for tag in cell] if is_list(cell) and set(cell) <= set(names) else None

    def predictions(self, logits, kept, all_probabilities):
        """``tags`` and their ``probabilities`` for the words, and ``entities`` with type, words and place."""
        tags = entities.named([words.argmax(axis=-1) for words in logits], kept["label_names"])
        found = [[dict(zip(("type", "first", "last"), each)) for each in entities.entities(row)] for row in tags]
        return {TAGS: tags, "probabilities": scores.confidences(logits), "entities": found}

    def named_texts(self, texts, kept):
        """The words."""
        return {TOKENS: texts[-1]}

    def in_short(self, row, kept):
        """The entities."""
        return entities.in_words(row[TOKENS], row[TAGS], kept["joiner"])

    def text_of(self, row, kept):
        """The sentence."""
        return kept["joiner"].join(row[TOKENS])


def _named(predicted, labels, kept):
    return [entities.named(rows, kept["label_names"]) for rows in (predicted, labels)]


TASK = TokenClassification()
