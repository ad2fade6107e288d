"""Whether a job that failed is started again."""

from dataclasses import dataclass
from pathlib import Path

from mindnlp_dp_plugin.job.error_record import ErrorRecord

SAME_IN_EACH_START = ("SyntaxError", "IndentationError", "TabError", "ImportError", "ModuleNotFoundError")
USAGE = 2  # the status by which argparse, click and shells reject a command line


@dataclass
class Restarts:
    """The restarts of a job. Its budget comes back with each new checkpoint, since then something was gained.

    Attributes:
        most: How often the job may be started again without a new checkpoint.
        used: How often it was.
    """

    most: int
    used: int = 0
    _checkpoint: str | None = None
    _failure: tuple | None = None

    def why_not(self, error: ErrorRecord | None, step: int | None, checkpoint: str | None) -> str | None:
        """Why the job must not start again (empty: the budget is used up); None if it may, which uses one restart.

        Args:
            error: The first rank's exception; None if it died without one.
            step: The optimizer step that the ranks had begun; None if they were not training.
            checkpoint: The newest checkpoint of this job.
        """
        if checkpoint != self._checkpoint:
            self._checkpoint, self.used = checkpoint, 0
        if self.used == self.most:
            return ""
        failure, self._failure = self._failure, error and (error.kind, error.message, step)
        if error and error.kind in SAME_IN_EACH_START:
            return f"a {error.kind} would come again"
        if error and error.kind == "SystemExit" and error.exit_code == USAGE:
            return "a command line that is not understood would not be next time"
        if error and step is not None and failure == self._failure:
            return f"the same {error.kind} came twice at step {step}"
        self.used += 1
        return None

    def __str__(self):
        since = f" since {Path(self._checkpoint).name}" if self._checkpoint else ""
        return f"{self.used} of {self.most}{since}"
