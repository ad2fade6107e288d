"""``result.json``: how a job ended, for schedulers and scripts. Written once, atomically, at the end."""

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
        exit_code: The launcher's exit code.
        first_failure: ``rank`` (None if it is none of the ranks), ``node``, ``exception`` (None for a process that was
            killed), ``message`` and ``time`` (UTC, ISO 8601) of the first failure; None if there is none.
        restarts: How often all ranks were started again.
        last_checkpoint: The newest complete checkpoint that this job wrote; None if there is none.
        seconds: From the start of the launcher to its end.
        job: The job's unique name.
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
        """Write it to the log directory, if that still exists."""
        path = log_dir / NAME
        unfinished = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            unfinished.touch(0o600)
            unfinished.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n", encoding="utf-8")
            unfinished.replace(path)
