"""How long ranks may take to end by themselves after a signal that asks for it."""

import signal
from collections.abc import Mapping

GRACE_S = 30  # as Slurm and Kubernetes give after SIGTERM
MARGIN_S = 2  # for the launcher to end after its ranks


def seconds(asked: float | None, signum: signal.Signals, environ: Mapping[str, str], now: float) -> float:
    """So many seconds.

    ``sbatch --signal`` sends SIGUSR1 or SIGUSR2 some time before the limit, which Slurm tells each step. No system
    tells when SIGKILL follows SIGTERM.

    Args:
        asked: What ``--grace`` says; None if it is not given.
        signum: The signal.
        environ: The environment of the launcher.
        now: Seconds since the epoch.
    """
    if asked is not None:
        return asked
    ends = environ.get("SLURM_JOB_END_TIME", "")
    if signum == signal.SIGTERM or not ends.isdecimal():
        return GRACE_S
    return max(0, int(ends) - now - MARGIN_S)
