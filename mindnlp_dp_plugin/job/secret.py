"""The secret that the nodes of a job share: proofs that somebody knows it, and signatures of what crosses nodes.

It is never sent. Ranks find it in their environment, which no other user of the node can read.
"""

import hashlib
import hmac
import json
import os
import pickle
import stat
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import SECRET

MIN_LENGTH = 16
TAG_BYTES = hashlib.sha256().digest_size


def read_secret(path: str | Path) -> str:
    """The secret in a file that nobody but its owner can read.

    Raises:
        DataParallelError: The file cannot be read, is open to others, or holds too short a secret.
    """
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise DataParallelError("--secret-file {path!r} can be read by others: chmod 600 {path}.", path=str(path))
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise DataParallelError(
            "--secret-file {path!r} cannot be read ({error}).", path=str(path), error=error
        ) from None
    return require_length(secret, f"--secret-file {str(path)!r}")


def require_length(secret: str, where: str) -> str:
    """The secret, if it cannot be guessed.

    Raises:
        DataParallelError: It is too short.
    """
    if len(secret) < MIN_LENGTH:
        raise DataParallelError(
            "{where} holds {length} characters: give at least {min_length}, as `openssl rand -hex 16` makes them.",
            where=where,
            length=len(secret),
            min_length=MIN_LENGTH,
        )
    return secret


def prove(secret: str, who: str, challenge: str, said: Any) -> str:
    """A proof that ``who`` knows the secret, good for this challenge and for what is said alone."""
    text = json.dumps([who, challenge, said], sort_keys=True)
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_proof(proof: Any, secret: str, who: str, challenge: str, said: Any) -> bool:
    """Whether that is the proof that ``prove`` gives."""
    if not isinstance(proof, str) or not proof.isascii():
        return False
    return hmac.compare_digest(proof, prove(secret, who, challenge, said))


def pack(value: Any) -> bytes:
    """An object as bytes, signed if the job has a secret."""
    content = pickle.dumps(value)
    return _tag(content) + content


def unpack(message: bytes) -> Any:
    """The object that ``pack`` was given on another rank of this job.

    Raises:
        DataParallelError: The signature is not that of the job's secret; nothing was unpickled.
    """
    size = TAG_BYTES if os.environ.get(SECRET) else 0
    tag, content = message[:size], message[size:]
    if not hmac.compare_digest(tag, _tag(content)):
        raise DataParallelError(
            "an object of another rank is not signed with this job's {variable}: give all nodes the same secret.",
            variable=SECRET,
        )
    return pickle.loads(content)


def _tag(content):
    secret = os.environ.get(SECRET)
    return hmac.new(secret.encode(), content, hashlib.sha256).digest() if secret else b""
