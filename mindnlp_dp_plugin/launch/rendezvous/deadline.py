"""How long nodes wait for each other, and when the user is told."""

import time

from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.terminal import tell

NOTICE_S = 5


class Deadline:
    """A limit for a wait; the user is told if it takes long.

    Args:
        seconds: The limit.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._began = time.monotonic()
        self._has_told = False

    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._began > self.seconds

    def tell(self, whom: str) -> None:
        """Tell the user, once and after a while, which nodes are missing."""
        if not self._has_told and time.monotonic() - self._began > NOTICE_S:
            self._has_told = True
            tell(tr("waiting up to {seconds:g} s for {whom}", seconds=self.seconds, whom=whom))
