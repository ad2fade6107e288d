"""Ascend cards, the links between them, CANN and the driver: what ``npu-smi``, ``hccn_tool`` and CANN's files say.

None of this was ever run on an NPU. The table is tested with text of the form that Huawei's documentation (CANN 8.0 to
8.5) and public logs show.
"""

import ast
import functools
import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, visible_devices
from mindnlp_dp_plugin.language import Message, tr

TOOL_LIMIT_S = 30
NPU_SMI, HCCN_TOOL = "npu-smi", "hccn_tool"
DRIVER = Path("/usr/local/Ascend/driver")
QUESTIONS = ("-link", "-net_health", "-tls")
ANSWER = re.compile(r"link status:|net health status:|tls switch\[")
VERSION = re.compile(r"^(?:toolkit_running_version=\[[^:\]]*:|[Vv]ersion=)([^\]\s]+)", re.MULTILINE)
CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(OK|Warning|Alarm|Critical|UNKNOWN)\s*\|", re.MULTILINE)

# Tool, level, pattern of a trouble, its meaning at each place, and the way out of all. The first row that fits counts.
# Groups of the pattern fill the texts. Lines of hccn_tool have their card before them.
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
        Message("have the cable, the switch and hccn_tool -i <card> -ip -g looked at; on one node links do not matter"),
    ),
    (
        HCCN_TOOL,
        warning,
        r"^(?P<card>\d+) .*tls switch\[(?P<on>\d)\](?s:.*)^(?P<other>\d+) .*tls switch\[(?!(?P=on))\d",
        Message("TLS is not switched alike on cards {card} and {other}: cards do not connect (EI0006)"),
        Message("switch it alike on all cards of all nodes: hccn_tool -i <card> -tls -s enable 0"),
    ),
]

SET_ENV = Message("source set_env.sh of CANN (usually /usr/local/Ascend/ascend-toolkit/set_env.sh)")
# MindSpore's own list of the CANN versions that it goes with, in a file that can be read without importing it.
CANN_VERSIONS_FILE = "mindspore/run_check/_check_version.py"
CANN_VERSIONS = re.compile(r"class AscendEnvChecker.*?self\.version = (\[[^\]]*\])", re.DOTALL)


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
    way_out = Message("install or mend the driver; in a container, mount /dev/davinci*, /usr/local/dcmi and npu-smi")
    return (failure if shutil.which(NPU_SMI) else warning)(found, way_out, output=text.strip()[:200])


def links() -> Finding:
    """Whether the cards' own network ports are up, healthy, and switched alike: what ranks on several nodes need."""
    tool, lines = shutil.which(HCCN_TOOL) or str(DRIVER / "tools" / HCCN_TOOL), []
    for card in range(len(cards_here())):
        for question in QUESTIONS:
            answer = said(tool, "-i", str(card), question, "-g")
            if not ANSWER.search(answer):
                way_out = Message("run the doctor as root, with the driver's tools; on one node links do not matter")
                return warning("hccn_tool tells nothing: {words}", way_out, words=answer.strip()[:200])
            lines += [f"{card} {line}" for line in answer.splitlines()]
    return trouble_in("\n".join(lines), HCCN_TOOL) or ok("{count} cards up and healthy", count=len(cards_here()))


def visible_cards() -> Finding:
    """Whether ``ASCEND_RT_VISIBLE_DEVICES`` names cards that are there."""
    visible, count = visible_devices(), len(cards_here())
    if visible is None:
        return ok("not set: all cards are used")
    known = {"variable": VISIBLE_DEVICES, "cards": ",".join(visible), "count": count}
    if len({*visible}) < len(visible) or not all(card.isdecimal() for card in visible):
        found = Message("{variable}={cards} is not a list of different card numbers")
    elif count and any(int(card) >= count for card in visible):
        found = Message("{variable}={cards}, but the {count} cards here have numbers from 0")
    else:
        return ok("cards {cards}; MindSpore numbers them anew, from 0, and so does DEVICE_ID", **known)
    return failure(found, "export {variable}=<numbers of npu-smi info>, or unset it", **known)


def cann() -> Finding:
    """Whether CANN is installed, its version, and whether the installed MindSpore goes with it."""
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if not home:
        return failure("ASCEND_HOME_PATH is not set", SET_ENV)
    version = version_in(Path(home, "version.cfg"), *Path(home).glob("*/ascend_toolkit_install.info"))
    compiler, fitting = version_in(Path(home, "compiler", "version.info")), fitting_cann_versions()
    known = {"version": version, "home": home, "compiler": compiler, "fitting": ", ".join(fitting)}
    if version is None:
        return warning("no version found in {home}, which may not be CANN's folder", SET_ENV, **known)
    if compiler and fitting and ".".join(compiler.split(".")[:2]) not in fitting:
        found = Message("{version} in {home}, whose compiler is {compiler}; MindSpore is made for {fitting}")
        return warning(found, "install one of these, or the MindSpore whose release notes name your CANN", **known)
    return ok("{version} in {home}", **known)


def fitting_cann_versions() -> list[str]:
    """The versions of CANN's compiler that the installed MindSpore names; empty if it names none."""
    try:
        text = Path(distribution("mindspore").locate_file(CANN_VERSIONS_FILE)).read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError):
        return []
    match = CANN_VERSIONS.search(text)
    return ast.literal_eval(match[1]) if match else []


def driver() -> Finding:
    """The version of the driver."""
    file = DRIVER / "version.info"
    if not file.exists():
        way_out = Message("install the driver; in a container, mount this file, as some of CANN reads it")
        return warning("{file} is not there", way_out, file=file)
    return ok(version_in(file) or Message("of an unknown version"))


def version_in(*files: Path) -> str | None:
    """The version that the first of CANN's or the driver's files names that is there and names one."""
    texts = (file.read_text() for file in files if file.exists())
    return next((match[1] for match in map(VERSION.search, texts) if match), None)
