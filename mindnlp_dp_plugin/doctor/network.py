"""Ports on loopback, which the ranks of a node use."""

import errno
import socket
from contextlib import ExitStack
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok
from mindnlp_dp_plugin.language import tr
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
    return ok(
        "ports",
        tr(
            "{count} ports at once on {address}, from {first}-{last}",
            count=NUM_PORTS,
            address=LOOPBACK,
            first=first,
            last=last,
        ),
    )


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
        found = tr(
            "no {count} free ports on {address}: net.ipv4.ip_local_port_range is {first}-{last}",
            count=NUM_PORTS,
            address=LOOPBACK,
            first=first,
            last=last,
        )
        return failure(
            "ports", found, tr("sysctl -w net.ipv4.ip_local_port_range='32768 60999', or end what holds them")
        )
    found = tr("no connection over {address}: {error}", address=LOOPBACK, error=error.strerror or error)
    return failure(
        "ports", found, tr("bring the loopback interface up (ip link set lo up), or let the firewall pass it")
    )
