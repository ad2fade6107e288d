"""How long MindSpore's engines wait for a late rank: set to match the timeout of the plugin's watchdog."""

import math
import os

# Their own limit is 30 s, less than rank 0 may need to download and tokenise.
OF_MCCL = ("MS_CPU_COMM_OP_TIMEOUT", "MS_NODE_TIMEOUT")  # MindSpore 2.10 and 2.7
LEAD_S = 30  # the watchdog, which names the ranks, is to speak first

# What CANN documents: the limits of HCCL_CONNECT_TIMEOUT, and the upper one of HCCL_EXEC_TIMEOUT on Ascend 910.
CONNECT_LIMITS_S = (120, 7200)
MAX_EXEC_S = 17340


def set_backend_timeouts(device: str, timeout: float) -> None:
    """Let collectives wait as long as the watchdog does, unless the user set how long. Before the cluster forms.

    On Ascend a collective runs on the device while the host goes on, so there it is HCCL's own limit that ends one that
    waits in vain.

    Args:
        device: What MindSpore runs on: ``"CPU"`` or ``"Ascend"``.
        timeout: Seconds.
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
