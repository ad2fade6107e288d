"""HCCL: its time-outs, ports, rank table and network.

None of this was ever run on an NPU. What the variables accept is taken from CANN's documentation (8.0 to 8.5).
"""

import json
import os
import re
import socket
from pathlib import Path

import psutil

from mindnlp_dp_plugin.doctor.ascend import cards_here
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.language import Message

CONNECT, EXECUTE, BASE_PORT = "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_IF_BASE_PORT"
SMALLEST_LARGEST = {CONNECT: (120, 7200), EXECUTE: (0, 2147483647), BASE_PORT: (1024, 65520)}
DEFAULTS = {CONNECT: "120", EXECUTE: "1836", BASE_PORT: "60000"}
NUM_BASE_PORTS = 16
HOST_PORTS, CARD_PORTS, LARGEST_PORT = "HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE", 65535
PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
RANK_TABLE, INTERFACE, ADDRESS = "RANK_TABLE_FILE", "HCCL_SOCKET_IFNAME", "HCCL_IF_IP"

OTHER_VALUE = Message("export a valid value, or unset the variable")
OTHER_PORTS = Message(
    "export HCCL_IF_BASE_PORT=<the first of {count} free ports>, or HCCL_HOST_SOCKET_PORT_RANGE=auto, and keep them "
    "from other programs: sysctl -w net.ipv4.ip_local_reserved_ports=<first>-<last>"
)
WRONG_TABLE = Message(
    "{path}: version {version!r}, status {status!r}, {with_id} of {count} cards with super_device_id; here are {here}"
)
OTHER_TABLE = Message(
    "have it made anew for these cards (status completed, version 1.0 for Atlas A2 and older, 1.2 with super_device_id "
    "for A3), or unset RANK_TABLE_FILE: mindnlp-dp run needs none"
)


def settings() -> Finding:
    """HCCL's time-outs, and whether its ports are given as it reads them."""
    for name, (smallest, largest) in SMALLEST_LARGEST.items():
        text = os.environ.get(name)
        if text and not (text.isdecimal() and smallest <= int(text) <= largest):
            known = {"name": name, "text": text, "smallest": smallest, "largest": largest}
            return failure("{name}={text!r} is not a whole number from {smallest} to {largest}", OTHER_VALUE, **known)
    for name in (HOST_PORTS, CARD_PORTS):
        text = os.environ.get(name)
        if text and text != "auto" and not ports_in(text):
            found = Message(
                "{name}={text!r} is neither auto nor ports and ranges without overlap, as 60000,60050-60100"
            )
            return failure(found, OTHER_VALUE, name=name, text=text)
    found = Message("{connect} s to connect, {execute} s for a collective; raise them if ranks come late (up to 7200)")
    connect, execute = (os.environ.get(name) or DEFAULTS[name] for name in (CONNECT, EXECUTE))
    return ok(found, connect=connect, execute=execute)


def ports() -> Finding:
    """Whether the ports of this node that HCCL wants are free."""
    listed = os.environ.get(HOST_PORTS)
    wanted = ports_in(listed or os.environ.get(BASE_PORT) or DEFAULTS[BASE_PORT])
    if wanted and not listed:
        wanted = list(range(wanted[0], min(wanted[0] + NUM_BASE_PORTS, LARGEST_PORT + 1)))
    if not wanted:
        return ok("none are given as numbers")
    known = {"variable": HOST_PORTS if listed else BASE_PORT, "ports": f"{wanted[0]}-{wanted[-1]}"}
    if taken := [port for port in wanted if not can_listen(port)]:
        found = Message("ports {taken} are taken; HCCL wants those of {variable}: {ports}")
        return warning(found, OTHER_PORTS, taken=taken, count=NUM_BASE_PORTS, **known)
    return ok("{ports} are free ({variable})", **known)


def ports_in(text: str) -> list[int]:
    """The ports that text like ``60000,60050-60100`` lists; none if it has another form, or names one twice."""
    found = []
    for part in text.split(","):
        match = PORTS.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= LARGEST_PORT or {*found} & {*range(first, last + 1)}:
            return []
        found += range(first, last + 1)
    return found


def can_listen(port: int, address: str = "") -> bool:
    """Whether a server could listen on a port of this node, 0 for any; of one address, or of all."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError:
        return False
    return True


def rank_table() -> Finding:
    """Whether the rank table can be read, is complete, and has the version of these cards."""
    path = os.environ.get(RANK_TABLE)
    if not path:
        return ok("not set, and not needed")
    try:
        table = json.loads(Path(path).read_text())
        with_id = ["super_device_id" in card for server in table["server_list"] for card in server["device"]]
        known = {"path": path, "version": table.get("version"), "status": table.get("status", "completed")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return failure("{path} cannot be read as a rank table ({error})", OTHER_TABLE, path=path, error=error)
    known.update(count=len(with_id), with_id=sum(with_id), here=", ".join(dict.fromkeys(cards_here())))
    right = "1.2" if with_id and all(with_id) else "1.0"
    if known["status"] != "completed" or known["version"] != right or (right == "1.2" and "910B" in known["here"]):
        return failure(WRONG_TABLE, OTHER_TABLE, **known)
    return ok("{path}: version {version}, {count} cards", **known)


def network() -> Finding:
    """Whether the network that HCCL is told to take is there."""
    variable = ADDRESS if os.environ.get(ADDRESS) else INTERFACE
    value, interfaces = os.environ.get(variable), list(psutil.net_if_addrs())
    known = {"variable": variable, "value": value, "interfaces": ", ".join(interfaces)}
    if not value:
        found = Message("HCCL takes the first interface by name that is neither lo nor docker; here are {interfaces}")
        return ok(found, **known)
    if can_listen(0, value) if variable == ADDRESS else any(fits(value, name) for name in interfaces):
        return ok("{variable} is {value}", **known)
    found = Message("{variable}={value} is no address and no interface of this node")
    return failure(found, "export {variable}=<one that `ip -brief address` shows>, or unset it", **known)


def fits(wanted: str, name: str) -> bool:
    """HCCL's rule: ``eth`` names a prefix, ``=eth0`` a whole name, ``^`` before either all others."""
    excludes, exact = wanted.startswith("^"), wanted.lstrip("^").startswith("=")
    words = wanted.lstrip("^=").split(",")
    return (name in words if exact else name.startswith(tuple(words))) != excludes
