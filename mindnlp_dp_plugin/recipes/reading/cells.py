"""What a cell of a table holds."""

from typing import Any

SURROGATES = {code: "\ufffd" for code in range(0xD800, 0xE000)}


def as_text(value: Any) -> str:
    """A cell's content, without blanks around it; nothing for missing ones. Whole numbers have no point: 1, not 1.0."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().translate(SURROGATES)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_list(value: Any) -> bool:
    """Whether a cell holds several things."""
    return isinstance(value, (list, tuple))
