"""Ports on loopback, which the ranks of a node use."""

import errno
import socket
from contextlib import ExitStack
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok
from mindnlp_dp_plugin.launch.ports import LOOPBACK

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
NUM_PORTS = 16  # two ranks and a scheduler, each listening and connected to the others


def ports() -> Finding:
    """Whether enough ports are free, and a connection over loopback works."""
    try:
        with ExitStack() as opened:
            listeners = [_listen(opened) for _ in range(NUM_PORTS)]
            opened.enter_context(socket.create_connection(listeners[0].getsockname(), timeout=5))
    except OSError as error:
        return _explain(error)
    first, last = _port_range()
    return ok("ports", f"{NUM_PORTS} ports at once on {LOOPBACK}, from {first}-{last}")


def _listen(opened):
    listener = opened.enter_context(socket.socket())
    listener.bind((LOOPBACK, 0))
    listener.listen()
    return listener


def _port_range():
    return (int(word) for word in PORT_RANGE.read_text().split())


def _explain(error) -> Finding:
    first, last = _port_range()
    if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
        found = f"no {NUM_PORTS} free ports on {LOOPBACK}: net.ipv4.ip_local_port_range is {first}-{last}"
        return failure("ports", found, "sysctl -w net.ipv4.ip_local_port_range='32768 60999', or end what holds them")
    found = f"no connection over {LOOPBACK}: {error.strerror or error}"
    return failure("ports", found, "bring the loopback interface up (ip link set lo up), or let the firewall pass it")
