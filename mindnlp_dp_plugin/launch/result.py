"""How a job ended: for the user, and in ``result.json`` for schedulers and scripts."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.job.error_record import ErrorRecord

FORMAT = 1
NAME = "result.json"


@dataclass(frozen=True)
class Ending:
    """How a job ended.

    Attributes:
        exit_code: The launcher's exit code.
        words: The text for the user.
        failure: The failure that ended it; None if it succeeded.
        was_stopped: Whether a signal ended it, to a launcher or to its ranks.
        training: What rank 0 has measured of the last training that ended, if it is on this node and one did.
    """

    exit_code: int
    words: str
    failure: ErrorRecord | None = None
    was_stopped: bool = False
    training: dict[str, float] | None = None

    def write(self, log_dir: Path, **further: Any) -> None:
        """Write ``result.json`` to the log directory, atomically, if that still exists.

        Args:
            log_dir: The log directory.
            further: What else it says: ``restarts``, ``last_checkpoint``, ``seconds``, ``job``, ``command``.
        """
        result = {
            "format": FORMAT,
            "status": "succeeded" if self.exit_code == 0 else "stopped" if self.was_stopped else "failed",
            "exit_code": self.exit_code,
            "first_failure": self.failure and self.failure.as_result(),
            "training": self.training,
            **further,
        }
        path = log_dir / NAME
        unfinished = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            unfinished.touch(0o600)
            unfinished.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
            unfinished.replace(path)
