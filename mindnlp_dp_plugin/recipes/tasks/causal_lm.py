"""The assistant's answers in conversations: fine-tuning of a causal language model."""

import json

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes import chats
from mindnlp_dp_plugin.recipes.baselines import Bigrams
from mindnlp_dp_plugin.recipes.chats import MESSAGES, USER
from mindnlp_dp_plugin.recipes.scores import shortened, worst_rows
from mindnlp_dp_plugin.recipes.small_models import MOST_NEW_TOKENS
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.tokens import IGNORED, token_scores
from mindnlp_dp_plugin.recipes.words import remark

ADVISED = "Qwen/Qwen2-0.5B-Instruct"  # small, and has learnt to answer in English and Chinese


class CausalLM(Task):
    """Prompts are read, and only the answers are learnt and scored."""

    name = "causal-lm"
    distribution = Message("Messages of each role")
    shown = ("perplexity", "token_accuracy")
    not_shares = falling = ("perplexity",)
    best_by = ("perplexity", "token_accuracy", "loss")
    labelled = staticmethod(chats.read_chats)
    auto_model = "AutoModelForCausalLM"
    generates = takes_lists = True
    label_filling = IGNORED
    lora_type = "CAUSAL_LM"
    small_models = ("small-gpt2", "small-qwen2")
    hub_models = dict.fromkeys(("en", "zh"), (ADVISED, ADVISED))
    out_suffixes = (".jsonl",)

    def choose_model(self, texts):
        """The small GPT-2: no pretrained language model is installed with the plugin."""
        return self.small_models[0], remark(
            Message("no --model is given; for answers that count, give a pretrained one")
        )

    def facts(self, data, options):
        """Messages of each role in each split."""
        return {"rows": {split: chats.count_roles(rows[MESSAGES]) for split, rows in data.splits.items()}}

    def fit_tokenizer(self, tokenizer):
        """Give it a chat template, and something to pad with, if it has none."""
        tokenizer.chat_template = tokenizer.chat_template or chats.PLAIN_TEMPLATE
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Tokens of conversations, with the answers as labels; what is too long loses its end."""
        tokens, labels = zip(*(chats.chat_to_tokens(tokenizer, json.loads(chat)) for chat in rows[MESSAGES]))
        columns = {
            "input_ids": [row[:max_length] for row in tokens],
            "attention_mask": [[1] * min(len(row), max_length) for row in tokens],
            "labels": [row[:max_length] for row in labels],
        }
        return columns, sum(len(row) > max_length for row in tokens)

    def baselines(self, data, options, facts, tokens=None):
        """Pairs of tokens, counted in train."""
        for split in data.splits:
            labels = tokens(split)["labels"]
            without = sum(set(row[1:]) <= {IGNORED} for row in labels)
            if without == len(labels):
                raise DataParallelError(
                    "--max-length {max_length}: no answer of {split} begins within so many tokens: give a larger one.",
                    max_length=options.max_length,
                    split=split,
                )
            if without:
                said = Message("{split}: conversations without an answer within --max-length: {count}")
                facts["remarks"].append(remark(said, split=split, count=without))
        train, scored = tokens("train"), tokens(split)
        size = 1 + max(max(row) for split in (train, scored) for row in split["input_ids"])
        loss, accuracy = Bigrams(train["input_ids"], size).score(scored["input_ids"], scored["labels"])
        return {"bigrams": {"perplexity": chats.perplexity(loss), "token_accuracy": accuracy, "split": split}}

    def head(self, kept):
        """The one it was trained with."""
        return {}

    def outputs(self, logits, labels):
        """For each row the sum of its tokens' losses, how many tokens there are, and how many were the likeliest."""
        return token_scores(logits[:, :-1], labels[:, 1:])

    def scores_of(self, logits, labels, kept):
        """``perplexity`` and ``token_accuracy``, from ``outputs``."""
        total, tokens, right = np.asarray(logits, np.float64).sum(axis=0)
        return {"perplexity": chats.perplexity(total / max(1, tokens)), "token_accuracy": right / max(1, tokens)}

    def standard_error(self, logits, labels, kept):
        """That of the perplexity, by conversations."""
        return super().standard_error(np.asarray(logits), np.arange(len(logits)), kept)

    def details(self, logits, labels, texts, kept):
        """The conversations whose answers are the most unexpected."""
        losses, hardest = logits[:, 0] / np.maximum(logits[:, 1], 1), []
        for row in worst_rows(losses, texts):
            messages = [{**each, "content": shortened(each["content"])} for each in json.loads(texts[row][-1])]
            hardest.append({"messages": messages, "perplexity": chats.perplexity(float(losses[row]))})
        return {"tokens": int(logits[:, 1].sum()), "hardest": hardest}

    def as_row(self, text, results):
        """A question, or a list of messages; an answer at its end is left out."""
        (messages,) = text if isinstance(text, tuple) and len(text) == 1 else (text,)
        if isinstance(messages, str):
            return ([{"role": USER, "content": messages.strip()}] if messages.strip() else [],)
        messages = chats.checked(list(messages))
        return (messages[:-1] if len(messages) > 1 and messages[-1]["role"] == chats.ASSISTANT else messages,)

    def read_label(self, cell, kept):
        """None: answers are written and not compared."""
        return None

    def inputs(self, tokenizer, rows, max_length, kept):
        """The tokens of each prompt."""
        asking = {"tokenize": False, "add_generation_prompt": True}
        prompts = [tokenizer.apply_chat_template(messages, **asking) for (messages,) in rows]
        return {"input_ids": [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]}

    def answer(self, model, tokenizer, inputs, rows, kept):
        """The likeliest answer to each prompt; one prompt at a time, so without padding."""
        new = kept.get("max_new_tokens") or MOST_NEW_TOKENS
        return [chats.continued(model, tokenizer, row["input_ids"], new) for row in inputs]

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
        return f"<- {row[MESSAGES][-1]['content']}" if row[MESSAGES] else "<-"


TASK = CausalLM()
