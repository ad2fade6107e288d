"""Which script texts are written in, as far as model, baselines and the report's language need it."""

import re
from collections.abc import Iterable
from itertools import islice

LETTER = re.compile(r"[^\W\d_]")
HAN = re.compile(r"[\u3400-\u9fff]")
WITHOUT_SPACES = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
SAMPLE = 500


def is_written_without_spaces(texts: Iterable[str]) -> bool:
    """Whether most letters are of scripts that put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer."""
    return _share(WITHOUT_SPACES, texts) > 0.5


def joiner_of(texts: Iterable[str]) -> str:
    """What stands between words: a blank, or nothing."""
    return "" if is_written_without_spaces(texts) else " "


def is_in_latin_script(texts: Iterable[str]) -> bool:
    """Whether most letters are Latin ones."""
    return _share(LATIN, texts) > 0.5


def language_of(texts: Iterable[str]) -> str:
    """``zh`` if most letters of the texts are Chinese, otherwise ``en``."""
    return "zh" if _share(HAN, texts) > 0.5 else "en"


def _share(letters, texts):
    sample = "".join(text[:1000] for text in islice(texts, SAMPLE))
    return len(letters.findall(sample)) / max(1, len(LETTER.findall(sample)))
