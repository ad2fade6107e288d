"""Ascend cards, the links between them, CANN and HCCL: what ``npu-smi``, ``hccn_tool``, CANN and MindSpore say.

None of this was ever run on an NPU. The table is tested with text of the form that Huawei's documentation (CANN 8.0 to
8.5) and public logs show.
"""

import functools
import os
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import psutil

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, visible_devices
from mindnlp_dp_plugin.language import Message, tr

TOOL_LIMIT_S = 30
NPU_SMI, HCCN_TOOL, MINDSPORE, CANN = "npu-smi", "hccn_tool", "mindspore", "CANN"
TOOLS = Path("/usr/local/Ascend/driver/tools")
QUESTIONS = ("-link", "-net_health", "-tls")
ANSWER = re.compile(r"link status:|net health status:|tls switch\[")
VERSION = re.compile(r"^(?:toolkit_running_version=\[[^:\]]*:|[Vv]ersion=)([^\]\s]+)", re.MULTILINE)
CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(OK|Warning|Alarm|Critical|UNKNOWN)\s*\|", re.MULTILINE)
INTERFACE, ADDRESS = "HCCL_SOCKET_IFNAME", "HCCL_IF_IP"
SET_ENV = Message("source set_env.sh of CANN (usually /usr/local/Ascend/ascend-toolkit/set_env.sh)")
AS_SAID = "{words}"

# Who says it, level, pattern of a trouble, its meaning at each place, and the way out of all. The first row that fits
# counts. Groups of the pattern fill the texts. Lines of hccn_tool have their card before them.
TROUBLES = [
    (
        NPU_SMI,
        failure,
        r"^\|\s*(?P<card>\d+)\s+(?P<name>\S+)\s*\|\s*(?P<health>Warning|Alarm|Critical|UNKNOWN)\s*\|",
        Message("card {card}: {name} {health}"),
        Message("npu-smi info -t health -i <card> says more; reset or replace the card"),
    ),
    (
        NPU_SMI,
        warning,
        r"^\|\s*(?P<card>\d+)\s+\d+\s*\|\s*(?P<pid>\d+)\s*\|\s*(?P<process>\S*)\s*\|\s*\d+\s*\|",
        Message("card {card} is held by process {pid} {process}"),
        Message("wait for them, or kill {pid} if they are left over, and give the driver ten seconds"),
    ),
    (
        HCCN_TOOL,
        warning,
        r"^(?P<card>\d+) (?P<what>link|net health) status:\s*(?P<state>(?!UP\s*$|Success\s*$)\S.*)",
        Message("card {card}: {what} {state}, so ranks on several nodes cannot connect (EI0006)"),
        Message("check the cable, the switch and hccn_tool -i <card> -ip -g; on one node links do not matter"),
    ),
    (
        HCCN_TOOL,
        warning,
        r"^(?P<card>\d+) .*tls switch\[(?P<on>\d)\](?s:.*)^(?P<other>\d+) .*tls switch\[(?!(?P=on))\d",
        Message("TLS is not the same on cards {card} and {other}, so they do not connect (EI0006)"),
        Message("set it alike on all cards of all nodes: hccn_tool -i <card> -tls -s enable 0"),
    ),
    (
        MINDSPORE,
        warning,
        r"(?P<words>MindSpore version \S+ and Ascend AI software package.* does not match.*)",
        AS_SAID,
        Message("install a CANN that it expects, or the MindSpore whose release notes name your CANN"),
    ),
    (CANN, failure, r"(?P<words>EI0001.*)", AS_SAID, Message("export a valid value, or unset the variable")),
    (
        CANN,
        failure,
        r"(?P<words>(?:EI0019|EI0020|EJ0003).*)",
        AS_SAID,
        Message(
            "export HCCL_IF_BASE_PORT=<the first of 16 free ports>, or HCCL_HOST_SOCKET_PORT_RANGE=auto, and keep them "
            "from other programs: sysctl -w net.ipv4.ip_local_reserved_ports=<first>-<last>"
        ),
    ),
    (
        CANN,
        failure,
        r"(?P<words>EI0014.*)",
        AS_SAID,
        Message(
            "make the rank table anew for these cards (status completed, version 1.0 for Atlas A2 and older, 1.2 "
            "with super_device_id for A3), or unset RANK_TABLE_FILE: mindnlp-dp run needs none"
        ),
    ),
    (CANN, failure, r"(?P<words>EJ0001.*)", AS_SAID, Message("end what is left of earlier jobs, and wait ten seconds")),
]


def trouble_in(text: str, of_tool: str) -> Finding | None:
    """The first trouble that a tool's text shows, with all places where it does; None if there is none."""
    for tool, level, pattern, meaning, way_out in TROUBLES:
        places = [match.groupdict() for match in re.finditer(pattern, text, re.MULTILINE)]
        if tool == of_tool and places:
            all_places = {name: " ".join(place[name] for place in places) for name in places[0]}
            return level("; ".join(tr(meaning, **place) for place in places), tr(way_out, **all_places))
    return None


@functools.cache  # it takes a second, and several checks ask
def said(*command: str) -> str:
    """All that a tool prints, or why it cannot be run."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ended.stdout + ended.stderr


def cards_here() -> list[str]:
    """The name of each chip of this machine; none if ``npu-smi`` does not say."""
    return [name for _, name, _ in CARD.findall(said(NPU_SMI, "info"))]


def devices() -> Finding:
    """Which cards there are, their health, and which processes hold them."""
    text = said(NPU_SMI, "info")
    if cards := CARD.findall(text):
        found = ", ".join(f"{card}: {name} {health}" for card, name, health in cards)
        return trouble_in(text, NPU_SMI) or ok(found)
    found = Message("npu-smi info shows no card: {output}")
    way_out = Message(
        "install or repair the driver; in a container, mount /dev/davinci*, /usr/local/dcmi, npu-smi and "
        "/usr/local/Ascend/driver/version.info, which CANN reads"
    )
    return (failure if shutil.which(NPU_SMI) else warning)(found, way_out, output=text.strip()[:200])


def visible_cards() -> Finding:
    """Whether ``ASCEND_RT_VISIBLE_DEVICES`` names cards that are there."""
    visible, count = visible_devices(), len(cards_here())
    if visible is None:
        return ok("not set: all cards are used")
    known = {"variable": VISIBLE_DEVICES, "cards": ",".join(visible), "count": count}
    are_here = all(card.isdecimal() and (int(card) < count or not count) for card in visible)
    if are_here and len({*visible}) == len(visible):
        return ok("cards {cards}; MindSpore numbers them anew, from 0, and so does DEVICE_ID", **known)
    found = Message("{variable}={cards} must name different cards, by numbers from 0; here are {count}")
    return failure(found, "export {variable}=<numbers of npu-smi info>, or unset it", **known)


def cann() -> Finding:
    """Whether CANN is installed, and its version."""
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if not home:
        return failure("ASCEND_HOME_PATH is not set", SET_ENV)
    files = [Path(home, "version.cfg"), *Path(home).glob("*/ascend_toolkit_install.info")]
    version = VERSION.search("\n".join(file.read_text() for file in files if file.exists()))
    if version is None:
        return warning("no version found in {home}, which may not be CANN's folder", SET_ENV, home=home)
    return ok("{version} in {home}", version=version[1], home=home)


def network() -> Finding:
    """Whether the network that HCCL is told to take is there."""
    variable = ADDRESS if os.environ.get(ADDRESS) else INTERFACE
    value, here = os.environ.get(variable), psutil.net_if_addrs()
    known = {"variable": variable, "value": value, "interfaces": ", ".join(here)}
    if not value:
        found = Message("HCCL takes the first interface by name that is neither lo nor docker; here are {interfaces}")
        return ok(found, **known)
    addresses = [each.address for each in chain(*here.values())]
    if value in addresses if variable == ADDRESS else any(is_meant(value, name) for name in here):
        return ok("{variable} is {value}", **known)
    found = Message("{variable}={value} is no address and no interface of this node")
    return failure(found, "export {variable}=<one that `ip -brief address` shows>, or unset it", **known)


def is_meant(wanted: str, name: str) -> bool:
    """HCCL's rule for an interface: ``eth`` names a prefix, ``=eth0`` a whole name, ``^`` before either all others."""
    excludes, exact = wanted.startswith("^"), wanted.lstrip("^").startswith("=")
    words = wanted.lstrip("^=").split(",")
    return (name in words if exact else name.startswith(tuple(words))) != excludes


def links() -> Finding:
    """Whether the cards' own network ports are up, healthy, and switched alike: what ranks on several nodes need."""
    tool, lines = shutil.which(HCCN_TOOL) or str(TOOLS / HCCN_TOOL), []
    for card in range(len(cards_here())):
        for question in QUESTIONS:
            answer = said(tool, "-i", str(card), question, "-g")
            if not ANSWER.search(answer):
                way_out = Message("run the doctor as root, with the driver's tools; on one node links do not matter")
                return warning("hccn_tool gives no answer: {words}", way_out, words=answer.strip()[:200])
            lines += [f"{card} {line}" for line in answer.splitlines()]
    return trouble_in("\n".join(lines), HCCN_TOOL) or ok("{count} cards up and healthy", count=len(cards_here()))
