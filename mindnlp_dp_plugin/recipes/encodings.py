"""The text of a file: UTF-8, UTF-16 with its mark, or in the encoding that the user names."""

import codecs
import re
from pathlib import Path

from charset_normalizer import from_bytes

from mindnlp_dp_plugin.errors import DataParallelError

# Those that people's files are in. Of more, charset-normalizer chooses rare ones for short files.
CHINESE = "gb18030"
LIKELY = [CHINESE, "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]
SAMPLE_BYTES = 1 << 20
BINARY = re.compile("[\0-\x08\x0e-\x1a]")


def decode(path: Path, encoding: str | None) -> str:
    """The text of a file, without a byte order mark.

    Args:
        path: The file.
        encoding: Its encoding, if the user named one.

    Raises:
        DataParallelError: If the file is in another encoding, with the likeliest; or if it is no text.
    """
    raw = path.read_bytes()
    marked = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = encoding or ("utf-16" if marked else "utf-8")
    try:
        text = raw.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise DataParallelError(
            "--encoding {encoding!r} is not known: give one such as utf-8 or gb18030.", encoding=encoding
        ) from None
    except UnicodeError as error:
        text = raw.decode(errors="ignore")
        if not BINARY.search(text):
            raise DataParallelError(
                "{path!r} is not {encoding} (line {line}): save it as UTF-8, or give its --encoding, such as {likely}.",
                path=str(path),
                encoding=encoding,
                line=raw[: getattr(error, "start", 0)].count(b"\n") + 1,
                likely=_likely(raw[: raw.rfind(b"\n", 0, SAMPLE_BYTES) + 1] or raw),
            ) from None
    if BINARY.search(text):
        raise DataParallelError(
            "{path!r} is no text in an encoding that is known: save it as csv in UTF-8, or name its --encoding.",
            path=str(path),
        )
    return text


def _likely(raw):
    """What charset-normalizer finds; between equals Chinese, as it takes short files in Chinese for Korean."""
    found = from_bytes(raw, cp_isolation=LIKELY)
    return min(found, key=lambda match: (match.chaos, match.encoding != CHINESE)).encoding if found else CHINESE
