"""Ascend cards, CANN and the driver.

None of this was ever run on an NPU. The parsers are tested with text of the form that Huawei's documentation and public
logs show.
"""

import ast
import functools
import os
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, visible_devices
from mindnlp_dp_plugin.language import Message, tr

NPU_SMI_LIMIT_S = 30
DRIVER_VERSION = Path("/usr/local/Ascend/driver/version.info")
SET_ENV = Message("source set_env.sh of CANN (usually /usr/local/Ascend/ascend-toolkit/set_env.sh)")

# Of the table that `npu-smi info` prints: a card's first line, and a process.
CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(OK|Warning|Alarm|Critical|UNKNOWN)\s*\|", re.MULTILINE)
PROCESS = re.compile(r"^\|\s*(\d+)\s+\d+\s*\|\s*(\d+)\s*\|\s*(\S*)\s*\|\s*\d+\s*\|", re.MULTILINE)

# MindSpore's own list of the CANN versions that it goes with, in a file that can be read without importing it.
CANN_VERSIONS_FILE = "mindspore/run_check/_check_version.py"
CANN_VERSIONS = re.compile(r"class AscendEnvChecker.*?self\.version = (\[[^\]]*\])", re.DOTALL)


@dataclass(frozen=True)
class Cards:
    """What ``npu-smi info`` shows.

    Attributes:
        health: Name and health of each chip, in order.
        holders: The ids and names of processes that hold a card, by card number.
    """

    health: list[tuple[str, str]]
    holders: dict[int, list[tuple[int, str]]]


def parse_npu_smi(text: str) -> Cards:
    """Reads the table of ``npu-smi info``."""
    holders = {}
    for card, pid, name in PROCESS.findall(text):
        holders.setdefault(int(card), []).append((int(pid), name))
    return Cards([(name, health) for _, name, health in CARD.findall(text)], holders)


def parse_version(text: str) -> str | None:
    """The version in CANN's ``version.cfg`` or ``*_install.info``, or in the driver's ``version.info``."""
    match = re.search(r"^(?:toolkit_running_version=\[[^:\]]*:|[Vv]ersion=)([^\]\s]+)", text, re.MULTILINE)
    return match[1] if match else None


def cards_here() -> Cards:
    """The cards of this machine; none if ``npu-smi`` does not say."""
    try:
        return parse_npu_smi(_npu_smi().stdout)
    except (OSError, subprocess.TimeoutExpired):
        return Cards([], {})


@functools.cache  # it takes a second, and several checks ask
def _npu_smi():
    return subprocess.run(["npu-smi", "info"], capture_output=True, text=True, timeout=NPU_SMI_LIMIT_S)


def devices() -> Finding:
    """Which cards there are, their health, and which processes hold them."""
    way_out = tr("install or mend the driver; in a container, mount /dev/davinci*, /usr/local/dcmi and npu-smi")
    try:
        ended = _npu_smi()
    except (OSError, subprocess.TimeoutExpired) as error:
        return warning("devices", tr("npu-smi info cannot be run: {error}", error=error), way_out)
    cards = parse_npu_smi(ended.stdout)
    if ended.returncode or not cards.health:
        return failure(
            "devices",
            tr("npu-smi info shows no card: {output}", output=(ended.stdout + ended.stderr).strip()[:200]),
            way_out,
        )
    found = ", ".join(f"{number}: {name} {health}" for number, (name, health) in enumerate(cards.health))
    if any(health != "OK" for _, health in cards.health):
        return failure("devices", found, tr("npu-smi info -t health -i <card> says more; reset or replace the card"))
    if cards.holders:
        held = "; ".join(
            tr("card {card} by {processes}", card=card, processes=_named(holders))
            for card, holders in cards.holders.items()
        )
        pids = " ".join(str(pid) for holders in cards.holders.values() for pid, _ in holders)
        way_out = tr("wait for them, or kill {pids} if they are left over, and give the driver ten seconds", pids=pids)
        return warning("devices", tr("held: {held}", held=held), way_out)
    return ok("devices", found)


def visible_cards() -> Finding:
    """Whether ``ASCEND_RT_VISIBLE_DEVICES`` names cards that are there."""
    visible, num_cards = visible_devices(), len(cards_here().health)
    if visible is None:
        return ok(VISIBLE_DEVICES, tr("not set: all cards are used"))
    known = {"variable": VISIBLE_DEVICES, "cards": ",".join(visible), "count": num_cards}
    if len({*visible}) < len(visible) or not all(card.isdecimal() for card in visible):
        found = tr("{variable}={cards} is not a list of different card numbers", **known)
    elif num_cards and any(int(card) >= num_cards for card in visible):
        found = tr("{variable}={cards}, but the {count} cards here have numbers from 0", **known)
    else:
        found = tr("cards {cards}; MindSpore numbers them anew, from 0, and so does DEVICE_ID", **known)
        return ok(VISIBLE_DEVICES, found)
    return failure(VISIBLE_DEVICES, found, tr("export {variable}=<numbers of npu-smi info>, or unset it", **known))


def cann() -> Finding:
    """Whether CANN is installed, its version, and whether the installed MindSpore goes with it."""
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if not home:
        return failure("CANN", tr("{name} is not set", name="ASCEND_HOME_PATH"), tr(SET_ENV))
    for path in [Path(home, "version.cfg"), *Path(home).glob("*/ascend_toolkit_install.info")]:
        if path.exists() and (version := parse_version(path.read_text())):
            return _beside_mindspore(version, home)
    return warning(
        "CANN",
        tr("no version found in {home}", home=home),
        tr("make sure that it is CANN's folder; {set_env}", set_env=SET_ENV),
    )


def _beside_mindspore(version, home) -> Finding:
    """What MindSpore compares with its list when it is imported is the version of CANN's compiler."""
    compiler, fitting = Path(home, "compiler", "version.info"), fitting_cann_versions()
    found = parse_version(compiler.read_text()) if compiler.exists() else None
    if not (found and fitting) or ".".join(found.split(".")[:2]) in fitting:
        return ok("CANN", tr("{version} in {home}", version=version, home=home))
    return warning(
        "CANN",
        tr(
            "{version} in {home}, whose compiler is {compiler}; MindSpore {mindspore} is made for {fitting}",
            version=version,
            home=home,
            compiler=found,
            mindspore=distribution("mindspore").version,
            fitting=", ".join(fitting),
        ),
        tr("install one of these, or the MindSpore whose release notes name your CANN"),
    )


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
    if not DRIVER_VERSION.exists():
        found = tr("{file} is not there", file=DRIVER_VERSION)
        return warning(
            "driver", found, tr("install the driver; in a container, mount this file, as some of CANN reads it")
        )
    return ok("driver", parse_version(DRIVER_VERSION.read_text()) or tr("of an unknown version"))


def _named(holders) -> str:
    return ", ".join(f"{pid} ({name or tr('no name')})" for pid, name in holders)
