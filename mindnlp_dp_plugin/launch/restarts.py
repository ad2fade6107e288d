"""Whether a job that failed is started again."""

from dataclasses import dataclass

from mindnlp_dp_plugin.job.error_record import ErrorRecord
from mindnlp_dp_plugin.language import tr

SAME_IN_EACH_START = ("SyntaxError", "IndentationError", "TabError", "ImportError", "ModuleNotFoundError")
USAGE = 2  # the status by which argparse, click and shells reject a command line


@dataclass
class Restarts:
    """The restarts of a job. Its budget comes back whenever training gets further than ever before.

    Attributes:
        most: How often the job may be started again without getting further.
        used: How often it was.
        furthest: The last optimizer step that was begun; 0 before training.
    """

    most: int
    used: int = 0
    furthest: int = 0
    _before: tuple | None = None

    def why_not(self, failure: ErrorRecord) -> str | None:
        """Why the job must not start again (empty: the budget is used up); None if it may, which uses one restart."""
        step = failure.step or 0
        if step > self.furthest:
            self.furthest, self.used = step, 0
        if self.used == self.most:
            return ""
        exception, before = failure.kind, self._before
        self._before = (exception, failure.message, step)
        if exception in SAME_IN_EACH_START:
            return tr("a {exception} would occur again", exception=exception)
        if exception == "SystemExit" and failure.exit_code == USAGE:
            return tr("the script rejected its command line, and would do so again")
        if exception and step and before == self._before:
            return tr("the same {exception} came twice at step {step}", exception=exception, step=step)
        self.used += 1
        return None

    def __str__(self):
        counts = {"used": self.used, "most": self.most}
        if self.furthest:
            return tr("restart {used} of {most} since step {step}", step=self.furthest, **counts)
        return tr("restart {used} of {most}", **counts)
