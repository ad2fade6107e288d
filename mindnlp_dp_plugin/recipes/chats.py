"""Conversations: read and checked, written out by a chat template, and turned into tokens with the answers marked."""

import json
import math
from collections import Counter
from functools import partial
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.files import is_list
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows
from mindnlp_dp_plugin.recipes.tokens import IGNORED

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
        DataParallelError: If the files hold no conversations, by file and row, or if options contradict each other.
    """
    if options.packing and options.group_by_length:
        raise DataParallelError(
            "--packing with --group-by-length: packed rows are all as long as each other. Leave one of the two out."
        )
    return read_rows(options, parse=_chat, names=((MESSAGES,), ())).labelled()


def _chat(cell):
    if cell is None or cell != cell:
        return None
    messages = checked(cell, needs_answer=True)
    text = "\n".join(each["content"] for each in messages)
    return {"text": text, MESSAGES: json.dumps(messages), "label": 0}


def checked(messages: Any, needs_answer: bool = False) -> list[dict]:
    """The messages of a conversation, with nothing but their roles and contents.

    Args:
        messages: A list of objects with ``role`` and ``content``.
        needs_answer: Whether one must be the assistant's.

    Raises:
        ValueError: If they are something else.
    """
    if not is_list(messages) or not messages:
        raise _bad(Message("messages is {value!r}"), value=messages)
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not {"role", "content"} <= set(message):
            raise _bad(Message("message {number} is {value!r}"), number=number, value=message)
        if message["role"] not in ROLES:
            raise _bad(Message("message {number} has the role {value!r}"), number=number, value=message["role"])
        content = message["content"]
        if not isinstance(content, str) or not content.strip():
            raise _bad(Message("message {number} has the content {value!r}"), number=number, value=content)
    if needs_answer and all(message["role"] != ASSISTANT for message in messages):
        raise _bad(Message("no message is the assistant's"))
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _bad(what, **fields):
    """The error of what is no conversation."""
    message = Message("{what}: give a list such as {example}, with the roles {roles}")
    return ValueError(tr(message, what=tr(what, **fields), example=EXAMPLE, roles=", ".join(ROLES)))


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
    tokens, labels, written, write = [], [], "", partial(tokenizer.apply_chat_template, tokenize=False)
    for number, message in enumerate(messages):
        if message["role"] != ASSISTANT:
            continue
        prompt = write(messages[:number], add_generation_prompt=True)
        whole = write(messages[: number + 1])
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


def perplexity(loss: float) -> float:
    """Of a mean loss of tokens; of very large ones a very large number."""
    return math.exp(min(loss, 700.0))


def continued(model: Any, tokenizer: Any, prompt: list[int], new: int) -> str:
    """The likeliest tokens after a prompt, up to the end of text.

    Args:
        model: That writes.
        tokenizer: Its own.
        prompt: Tokens; of too many the last.
        new: The most tokens to write.
    """
    import mindspore

    room = getattr(model.config, "max_position_embeddings", None)
    prompt = prompt if room is None else prompt[-max(1, room - new) :]
    tokens = model.generate(
        mindspore.Tensor([prompt], mindspore.int64),
        attention_mask=mindspore.Tensor([[1] * len(prompt)], mindspore.int64),
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return tokenizer.decode(tokens[0].asnumpy().tolist()[len(prompt) :], skip_special_tokens=True).strip()
