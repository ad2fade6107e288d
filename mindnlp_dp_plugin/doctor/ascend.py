"""Ascend cards, CANN, the driver, and HCCL's settings.

None of this was ever run on an NPU. The parsers are tested with text of the form that Huawei's documentation and public
logs show; the ranges of HCCL's variables are those of CANN's list of environment variables (CANN 8.0 to 8.5).
"""

import json
import os
import re
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.language import Message, tr

NPU_SMI_LIMIT_S = 30
DRIVER_VERSION = Path("/usr/local/Ascend/driver/version.info")
SET_ENV = Message("source set_env.sh of CANN (usually /usr/local/Ascend/ascend-toolkit/set_env.sh)")

# Of the table that `npu-smi info` prints: a card's first line, and a process.
CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(OK|Warning|Alarm|Critical|UNKNOWN)\s*\|", re.MULTILINE)
PROCESS = re.compile(r"^\|\s*(\d+)\s+\d+\s*\|\s*(\d+)\s*\|\s*(\S*)\s*\|\s*\d+\s*\|", re.MULTILINE)

# Smallest and largest value, and the default.
TIMEOUTS_S = {"HCCL_CONNECT_TIMEOUT": (120, 7200, 120), "HCCL_EXEC_TIMEOUT": (0, 2147483647, 1836)}
BASE_PORT, DEFAULT_BASE_PORT, NUM_BASE_PORTS = "HCCL_IF_BASE_PORT", 60000, 16


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


def devices() -> Finding:
    """Which cards there are, their health, and which processes hold them."""
    hint = tr("install or mend the driver; in a container, mount /dev/davinci*, /usr/local/dcmi and npu-smi")
    try:
        ended = subprocess.run(["npu-smi", "info"], capture_output=True, text=True, timeout=NPU_SMI_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return warning("devices", tr("npu-smi info cannot be run: {error}", error=error), hint)
    cards = parse_npu_smi(ended.stdout)
    if ended.returncode or not cards.health:
        return failure(
            "devices",
            tr("npu-smi info shows no card: {output}", output=(ended.stdout + ended.stderr).strip()[:200]),
            hint,
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
        hint = tr("wait for them, or kill {pids} if they are left over, and give the driver ten seconds", pids=pids)
        return warning("devices", tr("held: {held}", held=held), hint)
    return ok("devices", found)


def cann() -> Finding:
    """Whether CANN is installed, and its version."""
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if not home:
        return failure("CANN", tr("{name} is not set", name="ASCEND_HOME_PATH"), tr(SET_ENV))
    for path in [Path(home, "version.cfg"), *Path(home).glob("*/ascend_toolkit_install.info")]:
        if path.exists() and (version := parse_version(path.read_text())):
            return ok("CANN", tr("{version} in {home}", version=version, home=home))
    return warning(
        "CANN",
        tr("no version found in {home}", home=home),
        tr("make sure that it is CANN's folder; {set_env}", set_env=SET_ENV),
    )


def driver() -> Finding:
    """The version of the driver."""
    if not DRIVER_VERSION.exists():
        found = tr("{file} is not there", file=DRIVER_VERSION)
        return warning(
            "driver", found, tr("install the driver; in a container, mount this file, as some of CANN reads it")
        )
    return ok("driver", parse_version(DRIVER_VERSION.read_text()) or tr("of an unknown version"))


def hccl_settings() -> Finding:
    """HCCL's time-outs, ports and rank table."""
    try:
        timeouts = {name: _number(name, *limits) for name, limits in TIMEOUTS_S.items()}
        port = _number(BASE_PORT, 1024, 65520, DEFAULT_BASE_PORT)
        _require_rank_table()
    except ValueError as error:
        return failure("HCCL", str(error), tr("export a valid value, or unset the variable"))
    taken = [each for each in range(port, port + NUM_BASE_PORTS) if not _is_free(each)]
    if taken:
        hint = tr("export {variable}=<the first of {count} free ports>", variable=BASE_PORT, count=NUM_BASE_PORTS)
        return warning(
            "HCCL",
            tr(
                "ports {taken} are taken, HCCL wants {port} to {last}",
                taken=taken,
                port=port,
                last=port + NUM_BASE_PORTS - 1,
            ),
            hint,
        )
    shown = ", ".join(tr("{name} {seconds} s", name=name, seconds=seconds) for name, seconds in timeouts.items())
    return ok(
        "HCCL",
        tr("{shown}, ports from {port}; raise the time-outs if ranks come late (up to 7200)", shown=shown, port=port),
    )


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


def _require_rank_table() -> None:
    path = os.environ.get("RANK_TABLE_FILE")
    if not path:
        return
    try:
        json.loads(Path(path).read_text())["server_list"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            tr("RANK_TABLE_FILE={path!r} cannot be read as a rank table ({error})", path=path, error=error)
        ) from None


def _is_free(port) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _named(holders) -> str:
    return ", ".join(f"{pid} ({name or tr('no name')})" for pid, name in holders)
