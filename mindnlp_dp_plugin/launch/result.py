"""``result.json``: how a job ended, for schedulers and scripts. Written once, at the end, in one piece."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT = 1
NAME = "result.json"


@dataclass(frozen=True)
class Result:
    """How a job ended.

    Attributes:
        status: ``succeeded``, ``failed`` or ``stopped``.
        exit_code: What the launcher ends with.
        first_failure: ``rank`` (None if it is none of the ranks), ``node``, ``exception`` (None for a process that was
            killed), ``message`` and ``time`` (UTC, ISO 8601) of the first failure; None if there is none.
        restarts: How often all ranks were started again.
        last_checkpoint: The newest whole checkpoint that this job wrote; None if there is none.
        seconds: From the start of the launcher to its end.
        job: What tells the job from all others.
        command: The script and its arguments.
    """

    status: str
    exit_code: int
    first_failure: dict | None
    restarts: int
    last_checkpoint: str | None
    seconds: float
    job: str
    command: list[str]

    def write(self, log_dir: Path) -> None:
        """Leave it in the log directory, if that is still there."""
        path = log_dir / NAME
        unfinished = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            unfinished.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n", encoding="utf-8")
            unfinished.chmod(0o600)
            unfinished.replace(path)
