"""Deadlines that the launcher enforces: a rank may hang while it holds the interpreter lock."""

import socket
import time
from pathlib import Path

from mindnlp_dp_plugin.job.error_record import ErrorRecord, rank_log
from mindnlp_dp_plugin.job.rank_status import Phase, Status, describe_ranks, read_status
from mindnlp_dp_plugin.language import tr

GRACE_S = 2  # ranks that can tell more themselves come first
FIRST_JOIN_S = 120  # at least, for the first rank to import what it needs, and for the engine once all are there


class Deadlines:
    """How long the ranks may wait for each other.

    Args:
        scratch_dir: The folder with their status.
        ranks: The ranks.
        timeout: The limit in seconds, unless the script sets another.
    """

    def __init__(self, scratch_dir: Path, ranks: range, timeout: float):
        self._folder = scratch_dir
        self._ranks = ranks
        self._timeout = timeout
        self._began = time.monotonic()

    def missed(self, log_dir: Path) -> ErrorRecord | None:
        """The failure of a rank for which others wait too long; None if there is none."""
        now = time.monotonic()
        statuses = {rank: read_status(self._folder, rank) for rank in self._ranks}
        why = self._late_to_join(statuses, now) or self._too_long_in_a_collective(statuses, now)
        if why is None:
            return None
        rank, message = why
        log = rank_log(log_dir, rank)
        return ErrorRecord(
            rank=rank,
            host=socket.gethostname(),
            time_ns=time.time_ns(),
            exit_code=1,
            kind="DataParallelError",
            message=message,
            traceback=f"DataParallelError: {message}\n{describe_ranks(self._folder, self._ranks)}\n",
            log_bytes=log.stat().st_size if log.exists() else 0,
        )

    def _late_to_join(self, statuses: dict[int, Status | None], now: float) -> tuple[int, str] | None:
        away = [rank for rank, status in statuses.items() if status is None or not status.name]
        joining = [status for status in statuses.values() if status and status.name and not status.has_joined]
        if joining:
            waited = now - min(status.since for status in joining)
            limit = joining[0].timeout or self._timeout
            if not away:  # they wait for the engine itself
                limit = max(limit, FIRST_JOIN_S)
        else:
            waited, limit = now - self._began, max(self._timeout, FIRST_JOIN_S)
        if not (joining or len(away) == len(statuses)) or waited <= limit + GRACE_S:
            return None
        late = away or [rank for rank, status in statuses.items() if not status.has_joined]
        known = {"ranks": ", ".join(map(str, late)), "limit": limit, "waited": waited}
        if joining and away:
            return late[0], tr(
                "rank {ranks} has not joined the other ranks within timeout={limit:g} (MINDNLP_DP_TIMEOUT, seconds): "
                "others have waited {waited:.1f} s for it.",
                **known,
            )
        return late[0], tr(
            "rank {ranks} has not joined the other ranks within timeout={limit:g} (MINDNLP_DP_TIMEOUT, seconds): "
            "{waited:.1f} s have passed.",
            **known,
        )

    def _too_long_in_a_collective(self, statuses, now) -> tuple[int, str] | None:
        """Of a rank that cannot watch itself, since it holds the interpreter while it waits, or is stopped."""
        for rank, status in statuses.items():
            if status is None or status.phase != Phase.WAITING or not status.has_joined or not status.timeout:
                continue
            if status.is_at_its_end:  # it waits for ranks that need nobody
                continue
            if now - status.since > status.timeout + 3 * GRACE_S:
                return rank, tr(
                    "rank {rank} has waited {waited:.1f} s in {collective}, longer than timeout={limit:g} "
                    "(MINDNLP_DP_TIMEOUT, seconds), and does not answer.",
                    rank=rank,
                    waited=now - status.since,
                    collective=status.collective,
                    limit=status.timeout,
                )
        return None
