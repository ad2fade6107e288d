"""Set the time-outs of MindSpore's engines to match the watchdog's."""

import math
import os

# Their default is 30 s, less than rank 0 may need to download and tokenize.
OF_MCCL = ("MS_CPU_COMM_OP_TIMEOUT", "MS_NODE_TIMEOUT")  # MindSpore 2.10 and 2.7
LEAD_S = 30  # so that the watchdog, which names the ranks, reports first

# What CANN documents: the limits of HCCL_CONNECT_TIMEOUT, and the upper one of HCCL_EXEC_TIMEOUT on Ascend 910.
CONNECT_LIMITS_S = (120, 7200)
MAX_EXEC_S = 17340


def set_backend_timeouts(device: str, timeout: float) -> None:
    """Let collectives wait as long as the watchdog, unless the user set a limit. Call it before ranks join.

    On Ascend a collective runs on the device while the host continues, so there HCCL's own limit ends a deadlock.

    Args:
        device: MindSpore's device: ``"CPU"`` or ``"Ascend"``.
        timeout: The watchdog's limit, in seconds.
    """
    seconds = math.ceil(timeout)
    if device == "CPU":
        limits = dict.fromkeys(OF_MCCL, seconds + LEAD_S)
    else:
        shortest, longest = CONNECT_LIMITS_S
        connect = min(max(seconds, shortest), longest)
        limits = {"HCCL_CONNECT_TIMEOUT": connect, "HCCL_EXEC_TIMEOUT": min(seconds, MAX_EXEC_S)}
    for variable, limit in limits.items():
        os.environ.setdefault(variable, str(limit))
