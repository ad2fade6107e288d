"""Conversations: read and checked, written out by a chat template, and turned into tokens with the answers marked."""

import json
import math
from collections import Counter

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.columns import Columns
from mindnlp_dp_plugin.recipes.reading.splits import read_splits
from mindnlp_dp_plugin.recipes.tables import LabelledTexts
from mindnlp_dp_plugin.recipes.tokens import IGNORED
from mindnlp_dp_plugin.recipes.words import remark

ROLES = ("system", "user", "assistant")
_, USER, ASSISTANT = ROLES
MESSAGES = "messages"
# For models without a chat template of their own: "user: ...", each answer ended by the end of text.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
EXAMPLE = '{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]}'


def read_chats(options: RecipeOptions) -> LabelledTexts:
    """Conversations in the splits there are: columns ``text``, ``messages`` (JSON) and ``label``, which says nothing.

    Raises:
        DataParallelError: If the files hold no conversations; it names the file and the line.
    """
    tables = read_splits(options)
    column = options.text_column[0] if options.text_column else MESSAGES
    if len(options.text_column) > 1:
        raise DataParallelError("--text-column is given twice: a conversation is in one column, messages.")
    remarks = [each for table in tables.values() for each in table.remarks]
    splits = {}
    for split, table in tables.items():
        if column not in table.names:
            raise DataParallelError(
                "column {column!r} is not in the {split} split: its columns are {names}. Give jsonl such as {example}",
                column=column,
                split=split,
                names=", ".join(table.names),
                example=EXAMPLE,
            )
        values = [(row, value) for row, value in enumerate(table.columns[column]) if value is not None]
        if dropped := len(table) - len(values):
            remarks.append(remark("empty_rows", split=split, dropped=dropped, rows=len(table)))
        chats = [checked(value, table.place(row), needs_answer=True) for row, value in values]
        splits[split] = datasets.Dataset.from_dict(
            {
                "text": ["\n".join(each["content"] for each in chat) for chat in chats],
                MESSAGES: [json.dumps(chat) for chat in chats],
                "label": [0] * len(chats),
            }
        )
    if not len(splits["train"]):
        raise DataParallelError("the training data have no conversation: give jsonl such as {example}", example=EXAMPLE)
    return LabelledTexts(splits, [], remarks, Columns((column,), None))


def checked(messages: list, place: str, needs_answer: bool) -> list[dict]:
    """The messages of a conversation, with nothing but their roles and contents.

    Args:
        messages: A list of objects with ``role`` and ``content``.
        place: Where they are from, for errors.
        needs_answer: Whether one must be the assistant's.

    Raises:
        DataParallelError: If they are something else.
    """
    if not isinstance(messages, (list, tuple)) or not messages:
        raise DataParallelError(
            "{place}: {column} is {messages!r}: give a list such as in {example}",
            place=place,
            column=MESSAGES,
            messages=messages,
            example=EXAMPLE,
        )
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not {"role", "content"} <= set(message):
            raise DataParallelError(
                "{place}: message {number} is {message!r}: give each a role and a content, as in {example}",
                place=place,
                number=number,
                message=message,
                example=EXAMPLE,
            )
        if message["role"] not in ROLES:
            raise DataParallelError(
                "{place}: message {number} has the role {role!r}: the roles are {roles}.",
                place=place,
                number=number,
                role=message["role"],
                roles=", ".join(ROLES),
            )
        if not isinstance(message["content"], str) or not message["content"].strip():
            raise DataParallelError(
                "{place}: message {number} has the content {content!r}: give a text that is not empty.",
                place=place,
                number=number,
                content=message["content"],
            )
    if needs_answer and all(message["role"] != ASSISTANT for message in messages):
        raise DataParallelError("{place}: no message is the assistant's: there is no answer to learn.", place=place)
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def count_roles(chats: list[str]) -> dict[str, int]:
    """How many messages of each role there are in conversations, which are JSON."""
    counts = Counter(message["role"] for chat in chats for message in json.loads(chat))
    return {role: counts[role] for role in ROLES if counts[role]}


def chat_to_tokens(tokenizer, messages: list[dict]) -> tuple[list[int], list[int]]:
    """Tokens of a conversation; and the same as labels, with -100 for all that is not the assistant's.

    What precedes an answer is tokenised by itself, as it is when the model is asked for one.

    Args:
        tokenizer: With a chat template.
        messages: The conversation.

    Raises:
        DataParallelError: If the template writes a beginning of the conversation otherwise than in the whole.
    """
    tokens, labels, written = [], [], ""
    for number, message in enumerate(messages):
        if message["role"] != ASSISTANT:
            continue
        prompt = write(tokenizer, messages[:number], asks=True)
        whole = write(tokenizer, messages[: number + 1])
        if not (prompt.startswith(written) and whole.startswith(prompt)):
            raise DataParallelError(
                "the model's chat template writes the beginning of a conversation otherwise than in the whole, so its "
                "answers cannot be told from its prompts: give tokenizer.chat_template of the model folder another."
            )
        for text, is_answer in ((prompt[len(written) :], False), (whole[len(prompt) :], True)):
            found = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
            tokens += found
            labels += found if is_answer else [IGNORED] * len(found)
        written = whole
    return tokens, labels


def write(tokenizer, messages: list[dict], asks: bool = False) -> str:
    """A conversation as the model reads it.

    Args:
        tokenizer: With a chat template.
        messages: The conversation.
        asks: Whether the beginning of an answer follows.
    """
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks)


def perplexity(loss: float) -> float:
    """Of a mean loss of tokens; of very large ones a very large number."""
    return math.exp(min(loss, 700.0))
