"""The text of a file in whatever encoding it is; one that had to be assumed is told."""

import re
from pathlib import Path

from charset_normalizer import from_bytes
from charset_normalizer.utils import identify_sig_or_bom

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.words import remark

# Those that people's files are in. Of more, charset-normalizer chooses rare ones for short files.
CHINESE = "gb18030"
LIKELY = [CHINESE, "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]
SAMPLE_BYTES = 1 << 20
BINARY = re.compile("[\0-\x08\x0e-\x1a]")


def decode(path: Path, encoding: str | None, said: list[dict]) -> str:
    """The text of a file, without a byte order mark.

    Args:
        path: The file.
        encoding: Its encoding, if the user named one.
        said: Gets a remark if the encoding had to be assumed.

    Raises:
        DataParallelError: If the file is not in the named encoding, is UTF-8 but for a few lines, or is no text.
    """
    raw = path.read_bytes()
    encoding = encoding or identify_sig_or_bom(raw)[0]
    if encoding is not None:
        return _decode_as(raw, encoding, path).removeprefix("\ufeff")
    try:
        text, assumed = raw.decode(), None
    except UnicodeDecodeError as error:
        _refuse_if_nearly_utf8(raw, error, path)
        text, assumed = "\0", _guess(raw[: raw.rfind(b"\n", 0, SAMPLE_BYTES) + 1] or raw)
    if raw[1::2].count(0) > len(raw) // 4:  # ASCII as UTF-16 without its mark has a zero as each second byte
        assumed = "utf-16-le"
    if assumed:
        text = _decode_as(raw, assumed, path)
        message = Message("{file} is not UTF-8 and was read as {encoding}: give --encoding if its texts look wrong")
        said.append(remark(message, file=path.name, encoding=assumed))
    if BINARY.search(text):
        raise DataParallelError(
            "The encoding of {path!r} is not recognized: save it as csv in UTF-8, or name its --encoding.",
            path=str(path),
        )
    return text


def _decode_as(raw, encoding, path):
    try:
        return raw.decode(encoding)
    except LookupError:
        raise DataParallelError(
            "--encoding {encoding!r} is not known: give one such as utf-8 or gb18030.", encoding=encoding
        ) from None
    except UnicodeError as error:
        line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
        message = Message("{path!r} is not {encoding} (line {line}): give another --encoding.")
        raise DataParallelError(message, path=str(path), encoding=encoding, line=line) from None


def _refuse_if_nearly_utf8(raw, error, path):
    """One line in another encoding among many in UTF-8: no single encoding reads them all."""
    repaired = raw.decode(errors="replace")
    broken, good = repaired.count("\ufffd"), sum(map(len, filter(lambda word: not word.isascii(), repaired.split())))
    if good > 10 * broken and not BINARY.search(repaired):
        raise DataParallelError(
            "{path!r} is UTF-8 but for {count} characters, the first in line {line}: save every line as UTF-8, or name "
            "the --encoding of all, such as latin-1.",
            path=str(path),
            count=broken,
            line=raw[: error.start].count(b"\n") + 1,
        )


def _guess(raw):
    """What charset-normalizer finds; between equals Chinese, as it takes short files in Chinese for Korean."""
    found = from_bytes(raw, cp_isolation=LIKELY)
    return min(found, key=lambda match: (match.chaos, match.encoding != CHINESE)).encoding if found else None
