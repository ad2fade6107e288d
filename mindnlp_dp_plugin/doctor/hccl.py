"""HCCL: its time-outs, ports, rank table, network and the links between cards.

None of this was ever run on an NPU. What ``hccn_tool`` prints and what the variables accept is taken from CANN's
documentation (8.0 to 8.5).
"""

import json
import os
import re
import shutil
import socket
import subprocess
from ipaddress import ip_address
from pathlib import Path

import psutil

from mindnlp_dp_plugin.doctor.ascend import cards_here
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.language import tr

# Smallest and largest value, and the default.
TIMEOUTS_S = {"HCCL_CONNECT_TIMEOUT": (120, 7200, 120), "HCCL_EXEC_TIMEOUT": (0, 2147483647, 1836)}
BASE_PORT, DEFAULT_BASE_PORT, NUM_BASE_PORTS = "HCCL_IF_BASE_PORT", 60000, 16
HOST_PORTS, CARD_PORTS, LARGEST_PORT = "HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE", 65535
RANK_TABLE, VERSION_OF_A2, VERSION_OF_A3 = "RANK_TABLE_FILE", "1.0", "1.2"
INTERFACE, ADDRESS = "HCCL_SOCKET_IFNAME", "HCCL_IF_IP"
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
HCCN_TOOL_LIMIT_S = 10


def settings() -> Finding:
    """HCCL's time-outs and ports."""
    try:
        timeouts = {name: _number(name, *limits) for name, limits in TIMEOUTS_S.items()}
        base = _number(BASE_PORT, 1024, 65520, DEFAULT_BASE_PORT)
        ports, variable = _ports(HOST_PORTS), HOST_PORTS
        _ports(CARD_PORTS)
    except ValueError as error:
        return failure("HCCL", str(error), tr("export a valid value, or unset the variable"))
    if ports is None:
        ports, variable = list(range(base, base + NUM_BASE_PORTS)), BASE_PORT
    if taken := [port for port in ports if not _is_free(port)]:
        return warning(
            "HCCL",
            tr(
                "ports {taken} are taken; HCCL wants those of {variable}: {ports}",
                taken=taken,
                variable=variable,
                ports=_shown(ports),
            ),
            tr(
                "export {base}=<the first of {count} free ports>, or {host}=auto, and keep them from other programs: "
                "sysctl -w net.ipv4.ip_local_reserved_ports=<first>-<last>",
                base=BASE_PORT,
                count=NUM_BASE_PORTS,
                host=HOST_PORTS,
            ),
        )
    shown = ", ".join(tr("{name} {seconds} s", name=name, seconds=seconds) for name, seconds in timeouts.items())
    return ok(
        "HCCL",
        tr(
            "{shown}, ports {ports}; raise the time-outs if ranks come late (up to 7200)",
            shown=shown,
            ports=_shown(ports),
        ),
    )


def rank_table() -> Finding:
    """Whether the rank table can be read, is complete, and has the version of these cards."""
    path = os.environ.get(RANK_TABLE)
    if not path:
        return ok("rank table", tr("not set, and not needed"))
    try:
        table = json.loads(Path(path).read_text())
        cards = [card for server in table["server_list"] for card in server["device"]]
        trouble = _trouble_of_table(table, cards)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        trouble = tr("cannot be read as a rank table ({error})", error=error)
    if trouble is None:
        return ok(
            "rank table",
            tr("{path}: version {version}, {count} cards", path=path, version=table["version"], count=len(cards)),
        )
    way_out = tr(
        "have it made anew for these cards (version {a2} for Atlas A2 and older, {a3} with super_device_id for A3), or "
        "unset {variable}: mindnlp-dp run needs none",
        a2=VERSION_OF_A2,
        a3=VERSION_OF_A3,
        variable=RANK_TABLE,
    )
    return failure("rank table", f"{RANK_TABLE}={path}: {trouble}", way_out)


def _trouble_of_table(table, cards) -> str | None:
    version, status = table.get("version"), table.get("status", "completed")
    is_of_a3 = bool(cards) and all("super_device_id" in card for card in cards)
    if status != "completed":
        return tr("status {status!r} in place of 'completed': its writer is not done", status=status)
    if version not in (VERSION_OF_A2, VERSION_OF_A3):
        return tr("version {version!r} is not known", version=version)
    if version == VERSION_OF_A3 and not is_of_a3:
        return tr("version {version} is for Atlas A3, but cards lack super_device_id", version=version)
    if version == VERSION_OF_A3 and any(name.startswith("910B") for name, _ in cards_here().health):
        return tr("version {version} is for Atlas A3, and there are 910B here, which are A2", version=version)
    if version == VERSION_OF_A2 and is_of_a3:
        return tr("version {version} is for Atlas A2, but its cards have super_device_id, as A3 has", version=version)
    return None


def network() -> Finding:
    """Whether the network that HCCL is told to take is there."""
    interfaces = {
        name: [
            address.address.partition("%")[0]
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
        ]
        for name, addresses in psutil.net_if_addrs().items()
    }
    address, interface = os.environ.get(ADDRESS), os.environ.get(INTERFACE)
    shown = ", ".join(f"{name} {addresses[0]}" for name, addresses in interfaces.items() if addresses)
    way_out = tr(
        "export {variable}=<one of: {interfaces}>, or unset it",
        variable=ADDRESS if address else INTERFACE,
        interfaces=shown,
    )
    if address:
        if not any(_is_same_address(address, each) for addresses in interfaces.values() for each in addresses):
            return failure(
                "network", tr("{variable}={value} is no address of this node", variable=ADDRESS, value=address), way_out
            )
        return ok("network", f"{ADDRESS}={address}")
    if interface:
        if not [name for name in interfaces if _matches(interface, name)]:
            found = tr("{variable}={value} fits no interface of this node", variable=INTERFACE, value=interface)
            return failure("network", found, way_out)
        return ok("network", f"{INTERFACE}={interface}")
    found = tr(
        "HCCL takes the first interface by name that is neither lo nor docker; here are {interfaces}", interfaces=shown
    )
    return ok("network", found)


def links() -> Finding:
    """Whether the cards' own network ports are up, healthy, and switched alike: what ranks on several nodes need."""
    tool = shutil.which("hccn_tool") or HCCN_TOOL
    sick, tls = [], {}
    try:
        for card in range(len(cards_here().health)):
            link = _ask(tool, card, "-link", r"link status:\s*(\w+)")
            health = _ask(tool, card, "-net_health", r"net health status:\s*(.+)")
            tls[card] = _ask(tool, card, "-tls", r"tls switch\[(\d)\]")
            if link != "UP" or health != "Success":
                sick.append(tr("card {card}: link {link}, health {health}", card=card, link=link, health=health))
    except (OSError, subprocess.TimeoutExpired) as error:
        return warning(
            "links",
            tr("hccn_tool tells nothing: {error}", error=error),
            tr("run the doctor as root, with the driver's tools; on one node links do not matter"),
        )
    if sick:
        way_out = tr(
            "have the cable, the switch and hccn_tool -i <card> -ip -g looked at; on one node links do not matter"
        )
        return warning(
            "links", tr("{cards}: ranks on several nodes cannot connect (EI0006)", cards="; ".join(sick)), way_out
        )
    if len({*tls.values()}) > 1:
        shown = ", ".join(f"{card}: {switch}" for card, switch in tls.items())
        way_out = tr("switch it alike on all cards of all nodes: hccn_tool -i <card> -tls -s enable 0")
        return warning(
            "links", tr("TLS is not switched alike ({cards}): cards do not connect (EI0006)", cards=shown), way_out
        )
    return ok("links", tr("{count} cards up and healthy", count=len(tls)))


def _ask(tool, card, what, pattern) -> str:
    """What ``hccn_tool`` says of a card.

    Raises:
        OSError: If it says nothing of the kind; with its words.
    """
    command = [tool, "-i", str(card), what, "-g"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HCCN_TOOL_LIMIT_S)
    match = re.search(pattern, ended.stdout)
    if match is None:
        raise OSError((ended.stdout + ended.stderr).strip()[:200] or " ".join(command))
    return match[1].strip()


def _number(name, smallest, largest, default) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    if not text.isdecimal() or not smallest <= int(text) <= largest:
        raise ValueError(
            tr(
                "{name}={text!r} is not a whole number from {smallest} to {largest}",
                name=name,
                text=text,
                smallest=smallest,
                largest=largest,
            )
        )
    return int(text)


def _ports(name) -> list[int] | None:
    """The ports that a variable lists; none if the system chooses them, None if it is not set."""
    text = os.environ.get(name)
    if not text:
        return None
    if text == "auto":
        return []
    ports = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= LARGEST_PORT or {*ports} & {*range(first, last + 1)}:
            raise ValueError(
                tr(
                    "{name}={text!r} is neither auto nor ports and ranges that do not overlap, as 60000,60050-60100",
                    name=name,
                    text=text,
                )
            )
        ports += range(first, last + 1)
    return ports


def _shown(ports) -> str:
    return f"{ports[0]}-{ports[-1]}" if ports else "auto"


def _is_free(port) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _is_same_address(one, other) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False


def _matches(wanted, name) -> bool:
    """HCCL's rule: ``eth`` names a prefix, ``=eth0`` a whole name, ``^`` before either all others."""
    excludes, exact = wanted.startswith("^"), wanted.lstrip("^").startswith("=")
    words = wanted.lstrip("^=").split(",")
    fits = name in words if exact else name.startswith(tuple(words))
    return fits != excludes
