"""How long ranks may take to join each other: who waits for that may hold the interpreter, and cannot watch itself."""

import time

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.error_record import ErrorRecord, rank_log
from mindnlp_dp_plugin.job.rank_status import Status, describe_ranks
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.job import Job

GRACE_S = 2  # ranks that can tell more themselves come first
FIRST_JOIN_S = 120  # at least, for the first rank to import what it needs, and for the engine once all are there


def late_to_join(job: Job, statuses: dict[int, Status | None], began: float) -> ErrorRecord | None:
    """The failure of a rank that has not joined the others in time; None if there is none.

    Args:
        job: The job.
        statuses: What each rank does.
        began: When the ranks were started, on the machine's monotonic clock.
    """
    away = [rank for rank, status in statuses.items() if status is None or not status.name]
    joining = [status for status in statuses.values() if status and status.name and not status.has_joined]
    if not joining and len(away) < len(statuses):
        return None
    waited = time.monotonic() - min((status.since for status in joining), default=began)
    limit = joining[0].timeout if joining else 0
    limit = limit or DataParallelConfig.from_env().timeout
    if not (joining and away):  # nobody waits for a rank, or all are there and wait for the engine itself
        limit = max(limit, FIRST_JOIN_S)
    if waited <= limit + GRACE_S:
        return None
    late = away or [rank for rank, status in statuses.items() if not status.has_joined]
    message = tr(
        "rank {ranks} has not joined the other ranks within timeout={limit:g} (MINDNLP_DP_TIMEOUT, seconds): "
        "{waited:.1f} s have passed.",
        ranks=", ".join(map(str, late)),
        limit=limit,
        waited=waited,
    )
    log = rank_log(job.log_dir, late[0])
    return ErrorRecord(
        rank=late[0],
        exit_code=1,
        kind="DataParallelError",
        message=message,
        traceback=f"DataParallelError: {message}\n{describe_ranks(job.scratch_dir, job.ranks)}\n",
        log_bytes=log.stat().st_size if log.exists() else 0,
    )
