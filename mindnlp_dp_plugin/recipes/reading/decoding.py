"""Detect a file's encoding, and report it if it had to be assumed."""

import codecs
import re
from pathlib import Path

from charset_normalizer import from_bytes

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.words import remark

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Those that people's files are in. Of more, charset-normalizer chooses rare ones for short files.
LIKELY = ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]
SAMPLE_BYTES = 1 << 20
ASCII = bytes(range(128))
BINARY = re.compile("[\0-\x08\x0e-\x1a]")


def decode(path: Path, encoding: str | None = None) -> tuple[str, list[dict]]:
    """The text of a file, and a remark if its encoding had to be assumed.

    Args:
        path: The file.
        encoding: Its encoding, if the user named one.

    Raises:
        DataParallelError: If the file is not in the named encoding, is UTF-8 but for a few lines, or is no text.
    """
    raw = path.read_bytes()
    if encoding is not None:
        return _decode_as(raw, encoding, path), []
    for mark, name in BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            return _decode_as(raw, name, path), []
    try:
        text = raw.decode()
        if "\0" not in text:
            return text, []
    except UnicodeDecodeError as error:
        _refuse_if_nearly_utf8(raw, error, path)
    found = _guess(raw)
    text = _decode_as(raw, found, path) if found else "\0"
    if BINARY.search(text):
        raise DataParallelError(
            "{path!r} is no text in an encoding that is known: save it as UTF-8, or name its --encoding.",
            path=str(path),
        )
    return text, [remark("encoding_assumed", file=path.name, encoding=found)]


def _decode_as(raw, encoding, path):
    try:
        return raw.decode(encoding)
    except LookupError:
        raise DataParallelError(
            "--encoding {encoding!r} is not known: give one such as utf-8 or gb18030.", encoding=encoding
        ) from None
    except UnicodeError as error:
        line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
        raise DataParallelError(
            "{path!r} is not {encoding} (line {line}): give another --encoding.",
            path=str(path),
            encoding=encoding,
            line=line,
        ) from None


def _refuse_if_nearly_utf8(raw, error, path):
    """One line in another encoding among many in UTF-8: no single encoding reads them all."""
    repaired = raw.decode(errors="replace")
    broken, good = repaired.count("\ufffd"), sum(map(len, filter(lambda word: not word.isascii(), repaired.split())))
    if good > 10 * broken:
        line = raw[: error.start].count(b"\n") + 1
        raise DataParallelError(
            "{path!r} is UTF-8 but for {count} characters, the first in line {line}: save every line as UTF-8, or name "
            "the --encoding of all, such as latin-1.",
            path=str(path),
            count=broken,
            line=line,
        )


def _guess(raw):
    sample = raw[: raw.rfind(b"\n", 0, SAMPLE_BYTES) + 1] or raw
    if (zeros := sample.count(0)) > len(sample) // 4:  # UTF-16 without its mark: ASCII has a zero as each second byte
        return "utf-16-le" if sample[1::2].count(0) > zeros / 2 else "utf-16-be"
    if zeros:
        return None
    if _share(sample, "gb18030", _is_common_chinese) > 0.8 and not _is_korean(sample):
        return "gb18030"  # charset-normalizer takes short files in Chinese for Korean
    best = from_bytes(sample, cp_isolation=LIKELY).best()
    return best and best.encoding


def _is_korean(raw):
    return len(raw.translate(None, ASCII)) > 20 and _share(raw, "euc_kr", _is_hangul) > 0.95


def _share(raw, encoding, is_expected):
    """The share of expected characters among those beyond ASCII; 0 if these bytes are no text in that encoding."""
    try:
        characters = [character for character in raw.decode(encoding) if not character.isascii()]
    except UnicodeDecodeError:
        return 0
    return sum(map(is_expected, characters)) / max(1, len(characters))


def _is_common_chinese(character):
    """Han characters of everyday use (the first level of GB 2312, or its rows of punctuation)."""
    encoded = character.encode("gb2312", errors="ignore")
    return len(encoded) == 2 and (0xB0 <= encoded[0] <= 0xD7 or encoded[0] in (0xA1, 0xA3))


def _is_hangul(character):
    return "\uac00" <= character <= "\ud7a3"
