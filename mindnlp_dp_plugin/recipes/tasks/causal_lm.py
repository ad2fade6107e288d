"""The assistant's answers in conversations: fine-tuning of a causal language model."""

import json
from dataclasses import dataclass

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.bigrams import Bigrams
from mindnlp_dp_plugin.recipes.chats import (
    ASSISTANT,
    MESSAGES,
    PLAIN_TEMPLATE,
    USER,
    chat_to_tokens,
    checked,
    count_roles,
    perplexity,
    read_chats,
    write,
)
from mindnlp_dp_plugin.recipes.options import RecipeOptions, option
from mindnlp_dp_plugin.recipes.reading.formats import read_file
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.scores import listed, shortened
from mindnlp_dp_plugin.recipes.tables import LabelledTexts
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.tokens import IGNORED
from mindnlp_dp_plugin.recipes.words import remark

MOST_HARD = 20
NEW_TOKENS = 64


@dataclass(frozen=True)
class Options(RecipeOptions):
    """Those of all recipes, and how conversations share rows."""

    packing: bool = option(
        False,
        "Train several conversations in one row of --max-length tokens, each by itself: no padding, faster.",
        is_flag=True,
    )


class CausalLM(Task):
    """Prompts are read, and only the answers are learnt and scored."""

    name = "causal-lm"
    options = Options
    distribution = Message("Messages of each role in train")
    words = {
        "perplexity": Message("perplexity"),
        "token_accuracy": Message("token accuracy"),
        "bigrams": Message("counted pairs of tokens"),
        "hardest": Message("Least expected answers"),
        "hardest_help": Message("The conversations whose answers the model gives the lowest probability."),
        "no_language_model": Message("no --model is given; for answers that count, give a pretrained one"),
    }
    shown = ("perplexity", "token_accuracy")
    each_epoch = ("loss", *shown)
    not_shares = ("perplexity",)
    compared = ("token_accuracy", "perplexity")
    falling = ("perplexity",)
    best_by = ("perplexity", "token_accuracy", "loss")
    weighs_classes = False
    auto_model = "AutoModelForCausalLM"
    refused = {"positive_label": None, "class_weights": "none", "label_column": None}
    refusal = Message("--{option} {given!r} is for labels, and conversations have none: leave it out.")
    scores_before_training = generates = True
    label_filling = IGNORED
    lora_type = "CAUSAL_LM"
    small_models = ("small-gpt2", "small-qwen2")
    out_suffixes = (".jsonl",)
    out_name = "answers.jsonl"

    def read(self, options):
        """Conversations in splits."""
        self.refuse(options)
        if options.folds:
            raise DataParallelError(
                "--folds {folds} is not built for conversations: leave it out.", folds=options.folds
            )
        if self.packs(options) and options.group_by_length:
            raise DataParallelError(
                "--packing with --group-by-length: packed rows are all as long as each other. Leave one of the two out."
            )
        return read_chats(options).with_dev(self.strata, options)

    def packs(self, options):
        """If it is asked for."""
        return getattr(options, "packing", False)  # the options of a run from before there was packing have none

    def choose_model(self, texts):
        """The small GPT-2: no pretrained language model is installed with the plugin."""
        return self.small_models[0], remark("no_language_model")

    def known_model(self, language):
        """A small one that has learnt to answer."""
        return "Qwen/Qwen2-0.5B-Instruct"

    def hub_models(self, language):
        """One model, which answers in English and in Chinese."""
        return (self.known_model(language),) * 2

    def facts(self, data: LabelledTexts, options):
        """Messages of each role in each split."""
        return {
            "rows": {split: count_roles(rows[MESSAGES]) for split, rows in data.splits.items()},
            "num_outputs": None,
        }

    def describe(self, facts):
        """Conversations and messages."""
        return [
            tr(
                "{split}: {count} conversations; messages: {roles}",
                split=split,
                count=facts["num_rows"][split],
                roles=listed(rows),
            )
            for split, rows in facts["rows"].items()
        ]

    def fit_tokenizer(self, tokenizer):
        """Give it a chat template, and something to pad with, if it has none."""
        if tokenizer.chat_template is None:
            tokenizer.chat_template = PLAIN_TEMPLATE
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token

    def text_columns(self, rows):
        """The messages."""
        return [MESSAGES]

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Tokens of conversations, with the answers as labels; what is too long loses its end."""
        tokens, labels = zip(*(chat_to_tokens(tokenizer, json.loads(chat)) for chat in rows[MESSAGES]))
        num_cut = sum(len(row) > max_length for row in tokens)
        columns = {
            "input_ids": [row[:max_length] for row in tokens],
            "attention_mask": [[1] * min(len(row), max_length) for row in tokens],
            "labels": [row[:max_length] for row in labels],
        }
        if "answer_tokens" not in facts:  # of train, which comes first
            learnt = sum(label != IGNORED for row in columns["labels"] for label in row[1:])
            if not learnt:
                raise DataParallelError(
                    "--max-length {max_length}: no answer begins within so many tokens: give a larger one.",
                    max_length=max_length,
                )
            facts["answer_tokens"] = learnt / len(rows)
        return columns, num_cut

    def baselines_of_tokens(self, tokens, split):
        """Pairs of tokens, counted in train."""
        train, scored = tokens("train"), tokens(split)
        size = 1 + max(max(row) for split in (train, scored) for row in split["input_ids"])
        model = Bigrams(train["input_ids"], size)
        loss, accuracy = model.score(scored["input_ids"], scored["labels"])
        return {"bigrams": {"perplexity": perplexity(loss), "token_accuracy": accuracy, "split": split}}

    def sample(self, texts, kept):
        """The first question of a conversation."""
        asked = [message["content"] for message in json.loads(texts[0]) if message["role"] == USER]
        return [shortened(asked[0] if asked else "...")]

    def head(self, kept):
        """The one it was trained with."""
        return {}

    def loss(self, facts, options):
        """The cross entropy of all tokens of answers, by the number of rows and the mean of them in a row of train.

        So each token counts the same in whatever batch and on whatever rank it is, and two ranks learn what one does.
        """
        per_row = facts["answer_tokens"]
        return lambda logits, labels: _token_losses(logits, labels).sum() / (len(labels) * per_row)

    def outputs(self, logits, labels):
        """For each row the sum of its tokens' losses, how many tokens there are, and how many were the likeliest."""
        from mindnlp.core import ops

        counted = labels[:, 1:] != IGNORED
        right = (logits[:, :-1].argmax(-1) == labels[:, 1:]) & counted
        columns = (_token_losses(logits, labels).sum(1), counted.sum(1), right.sum(1))
        return ops.stack([column.float() for column in columns], 1)

    def scores_of(self, logits, labels, kept):
        """``perplexity`` and ``token_accuracy``."""
        return _scores(logits)

    def standard_error(self, logits, labels, kept):
        """That of the perplexity, by conversations."""
        return super().standard_error(np.asarray(logits), np.arange(len(logits)), kept)

    def score(self, logits, labels, texts, kept):
        """Scores over all, and the conversations whose answers are the most unexpected."""
        losses = logits[:, 0] / np.maximum(logits[:, 1], 1)
        hardest = np.argsort(-losses, kind="stable")[:MOST_HARD].tolist()
        return {
            **_scores(logits),
            "rows": len(logits),
            "tokens": int(logits[:, 1].sum()),
            "hardest": [
                {"messages": _shortened(texts[row][0]), "perplexity": perplexity(float(losses[row]))} for row in hardest
            ],
        }

    def asked(self, texts, results):
        """Each text is a conversation of one question."""
        return [[[{"role": USER, "content": as_text(text)}]] for text in texts]

    def as_row(self, text, results):
        """A question, or a list of messages."""
        if isinstance(text, str):
            return tuple(self.asked([text], results)[0])
        messages = text[0] if len(text) == 1 and isinstance(text[0], list) else text
        return (checked(list(messages), tr("the conversation to go on with"), needs_answer=False),)

    def read_asked(self, path, results, columns, label, encoding):
        """Conversations of jsonl, without an answer at their end; or texts, each a question."""
        if path.suffix.lower() in (".json", ".jsonl", ".parquet"):
            table = read_file(path, encoding)
            column = next((name for name in (*columns, *results["data"]["text_columns"]) if name in table.names), None)
            if column is not None and any(isinstance(value, (list, tuple)) for value in table.columns[column]):
                values = enumerate(table.columns[column])
                chats = [checked(value, table.place(row), needs_answer=False) for row, value in values]
                return [[_without_last_answer(chat)] for chat in chats], None, table.remarks
        results = {**results, "data": {**results["data"], "text_columns": ["text"]}}
        texts, _, remarks = super().read_asked(path, results, columns, None, encoding)
        return self.asked([text for (text,) in texts], results), None, remarks

    def read_label(self, cell, kept):
        """None: answers are written and not compared."""
        return None

    def inputs(self, tokenizer, rows, max_length, kept):
        """The tokens of each prompt."""
        prompts = [write(tokenizer, messages, asks=True) for (messages,) in rows]
        return {"input_ids": [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]}

    def answer(self, model, tokenizer, inputs, rows, kept):
        """The likeliest tokens after each prompt, up to the end of text; one prompt at a time, so without padding."""
        import mindspore

        new = kept.get("max_new_tokens") or NEW_TOKENS
        room = getattr(model.config, "max_position_embeddings", None)
        found = []
        for row in inputs:
            prompt = row["input_ids"] if room is None else row["input_ids"][-max(1, room - new) :]
            given = mindspore.Tensor([prompt], mindspore.int64)
            tokens = model.generate(
                given,
                attention_mask=mindspore.Tensor(np.ones_like([prompt]), mindspore.int64),
                max_new_tokens=new,
                do_sample=False,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
            written = tokens[0].asnumpy().tolist()[len(prompt) :]
            found.append(tokenizer.decode(written, skip_special_tokens=True).strip())
        return found

    def gather(self, rows, kept):
        """A list of texts."""
        return list(rows)

    def predictions(self, answers, kept, all_probabilities):
        """``answer``."""
        return {"answer": answers}

    def named_texts(self, texts, kept):
        """The conversation that the answer goes on with."""
        return {MESSAGES: texts[0]}

    def in_short(self, row, kept):
        """The answer."""
        return row["answer"] or "–"

    def text_of(self, row, kept):
        """The last message before it."""
        return f"<- {row[MESSAGES][-1]['content']}"


def _token_losses(logits, labels):
    """The cross entropy of each token but the first, 0 where there is no label; of shape (rows, length - 1)."""
    from mindnlp.core.nn import functional

    wanted = labels[:, 1:]
    flat = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
    losses = functional.cross_entropy(flat, wanted.reshape(-1), ignore_index=IGNORED, reduction="none")
    return losses.reshape(wanted.shape)


def _scores(rows):
    total, tokens, right = np.asarray(rows, np.float64).sum(axis=0)
    return {"perplexity": perplexity(total / max(1, tokens)), "token_accuracy": right / max(1, tokens)}


def _shortened(chat):
    return [{**message, "content": shortened(message["content"])} for message in json.loads(chat)]


def _without_last_answer(chat):
    return chat[:-1] if len(chat) > 1 and chat[-1]["role"] == ASSISTANT else chat


TASK = CausalLM()
