"""What engines are told before ranks join: how long MindSpore's wait, and how Open MPI sums."""

import math
import os

# Their default is 30 s, less than rank 0 may need to download and tokenize.
OF_MCCL, OF_MCCL_2_7 = "MS_CPU_COMM_OP_TIMEOUT", "MS_NODE_TIMEOUT"
LEAD_S = 30  # so that the watchdog, which names the ranks, reports first
AT_THE_END_S = 7 * 24 * 3600  # what a rank does at its end, which needs nobody, no timeout ends

# What CANN documents: the limits of HCCL_CONNECT_TIMEOUT, and the upper one of HCCL_EXEC_TIMEOUT on Ascend 910.
CONNECT_LIMITS_S = (120, 7200)
MAX_EXEC_S = 17340

# A rank learns with its next heartbeat that all have come, and leaves with one; MindSpore has 3 to 5 s between two.
HEARTBEAT = dict.fromkeys(("MS_RETRY_INTERVAL_LOWER", "MS_RETRY_INTERVAL_UPPER"), 1)

# Open MPI's own choice for sums in place is a tree, which sends twice as much and more; in its ring the last bit
# depends on the place in the message.
SUM = "OMPI_MCA_coll_libnbc_iallreduce_algorithm", "rabenseifner"


def choose_sum() -> None:
    """Let Open MPI sum by halves (Rabenseifner, 2004), unless the user chose. Call it before ranks join.

    A rank sends 2 (N - 1) / N of a message if N is a power of two, as in a ring; and the order of a sum depends on N
    alone.
    """
    os.environ.setdefault(*SUM)


def set_backend_times(device: str, timeout: float) -> None:
    """Let collectives wait as long as the watchdog, unless the user set a limit. Call it before ranks join.

    On Ascend a collective runs on the device while the host continues, so there HCCL's own limit ends a deadlock.

    Args:
        device: MindSpore's device: ``"CPU"`` or ``"Ascend"``.
        timeout: The watchdog's limit, in seconds.
    """
    seconds = math.ceil(timeout)
    if device == "CPU":
        times = {OF_MCCL: max(seconds + LEAD_S, AT_THE_END_S), OF_MCCL_2_7: seconds + LEAD_S}
    else:
        shortest, longest = CONNECT_LIMITS_S
        connect = min(max(seconds, shortest), longest)
        times = {"HCCL_CONNECT_TIMEOUT": connect, "HCCL_EXEC_TIMEOUT": min(seconds, MAX_EXEC_S)}
    if not HEARTBEAT.keys() & os.environ.keys():  # one of the user's bounds may lie beyond ours
        times |= HEARTBEAT
    for variable, time in times.items():
        os.environ.setdefault(variable, str(time))
