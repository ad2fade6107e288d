"""Names of nodes and their addresses."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

RETRY_S = 1
NOTICE_S = 5
SCONTROL_TIMEOUT_S = 10


def resolve(host: str, seconds: float, name: str) -> str:
    """The IP address of a node, as MindSpore takes no names. An unknown name is tried again.

    Args:
        host: Its name or address.
        seconds: How long to try; the nodes of a job may start, and get their names, in any order.
        name: The option or variable that holds ``host``, for the error.

    Raises:
        DataParallelError: If the name stays unknown.
    """
    began, has_told = time.monotonic(), False
    while True:
        try:
            family, *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            return address[0]
        except (OSError, ValueError):  # the second for what no node can be called
            if address := _address_in_slurm(host):
                return address
        waited = time.monotonic() - began
        if waited > seconds:
            raise DataParallelError(
                "{name} {host!r} cannot be resolved: give the IP address of node 0.", name=name, host=host
            ) from None
        if waited > NOTICE_S and not has_told:
            has_told = True
            wait = tr("waiting up to {seconds:g} s for {host!r} to get an address", seconds=seconds, host=host)
            print(f"mindnlp-dp: {wait}", file=sys.stderr, flush=True)
        time.sleep(min(RETRY_S, seconds))


def _address_in_slurm(host):
    """The address of a node name that only Slurm knows."""
    scontrol = shutil.which("scontrol") if "SLURM_JOB_ID" in os.environ else None
    if scontrol is None or not re.fullmatch(r"[\w.-]+", host):
        return None
    try:
        shown = subprocess.run(
            [scontrol, "show", "node", "--oneliner", host], capture_output=True, text=True, timeout=SCONTROL_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
    if not match or match[1] == host:
        return None
    try:
        return socket.getaddrinfo(match[1], None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return None
