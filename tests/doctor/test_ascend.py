"""What the doctor reads on Ascend.

There is no NPU to run this on. The texts below are written after what Huawei's documentation and public logs show of
`npu-smi info`, `hccn_tool`, CANN's version.cfg and the driver's version.info; the commands are stand-ins.
"""

import json
import re
import socket

import psutil
import pytest

from mindnlp_dp_plugin.doctor.ascend import fitting_cann_versions, parse_npu_smi, parse_version
from mindnlp_dp_plugin.doctor.hccl import _matches, rank_table

RULE = "+===========================+===============+====================================================+"


def npu_smi(second_health="OK", process="| No running processes found in NPU 1                         |"):
    return f"""
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc3                 Version: 24.1.rc3                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
{RULE}
| 0     910B3               | OK            | 91.4        38                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3364 / 65536         |
{RULE}
| 1     910B3               | {second_health:<13} | 95.0        40                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3370 / 65536         |
{RULE}
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
{RULE}
| No running processes found in NPU 0                                                            |
{RULE}
{process}
{RULE}
"""


PROCESS = "| 1       0                 | 4242          | python                   | 13330                   |"
NAMELESS = "| 1       0                 | 4243          |                          | 134                     |"
VERSION_CFG = (
    "# version: 1.0\nruntime_running_version=[7.6.0.1.220:8.0.0]\ntoolkit_running_version=[7.6.0.1.220:8.0.0]\n"
)


def test_cards_and_who_holds_them():
    idle = parse_npu_smi(npu_smi())
    assert idle.health == [("910B3", "OK"), ("910B3", "OK")] and idle.holders == {}
    busy = parse_npu_smi(npu_smi("Alarm", f"{PROCESS}\n{NAMELESS}"))
    assert busy.health[1] == ("910B3", "Alarm")
    assert busy.holders == {1: [(4242, "python"), (4243, "")]}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (VERSION_CFG, "8.0.0"),
        ("package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001\n", "8.1.RC1"),
        ("Version=24.1.rc3\nascendhal_version=7.35.23\npackage_version=24.1.rc3\n", "24.1.rc3"),
        ("nothing of the kind\n", None),
    ],
)
def test_versions(text, version):
    assert parse_version(text) == version


def test_mindspore_names_the_versions_of_cann_that_it_goes_with():
    found = fitting_cann_versions()
    assert found and all(re.fullmatch(r"\d+\.\d+", version) for version in found), found


MINDSPORE_S_LIST = """
class AscendEnvChecker(EnvChecker):
    def __init__(self, library_path):
        self.version = ["8.2", "8.5"]
"""
LINKS = {
    "link": "link status: UP",
    "net_health": "net health status: Success",
    "tls": "dev_id:0, tls switch[0](0:disable)",
}


@pytest.fixture
def ascend(clinic):
    """A machine that looks as if it had two cards and CANN, until something is started on them."""
    (clinic.folder / "bin").mkdir()
    show(clinic, npu_smi())
    show_links(clinic)
    clinic.put_first("mindspore/run_check/_check_version.py", MINDSPORE_S_LIST)
    clinic.install("mindspore", "2.7.0")
    (clinic.folder / "compiler").mkdir()
    (clinic.folder / "compiler" / "version.info").write_text("Version=8.2.0.1.220\n")
    clinic.environ["PATH"] = f"{clinic.folder / 'bin'}:/usr/bin:/bin"
    clinic.environ["ASCEND_HOME_PATH"] = str(clinic.folder)
    (clinic.folder / "version.cfg").write_text(VERSION_CFG)
    clinic.put_first("mindspore/__init__.py", "raise ImportError('no MindSpore for Ascend here')")
    return clinic


def show(clinic, text):
    put_command(clinic, "npu-smi", f"cat <<'END'\n{text}\nEND\n")


def show_links(clinic, **of_card_1):
    """What `hccn_tool -i <card> -<what> -g` prints."""
    cases = [f"0-{what}) echo '{text}';;" for what, text in LINKS.items()]
    cases += [f"1-{what}) echo '{text}';;" for what, text in {**LINKS, **of_card_1}.items()]
    put_command(clinic, "hccn_tool", "case $2$3 in\n" + "\n".join(cases) + "\nesac\n")


def put_command(clinic, name, script):
    command = clinic.folder / "bin" / name
    command.write_text(f"#!/bin/sh\n{script}")
    command.chmod(0o755)


def write_rank_table(ascend, version, *more, **of_table):
    cards = [
        {"device_id": str(number), "rank_id": str(number), **dict.fromkeys(more, str(number))} for number in (0, 1)
    ]
    table = {
        "version": version,
        "status": "completed",
        "server_list": [{"server_id": "n", "device": cards}],
        **of_table,
    }
    (ascend.folder / "table.json").write_text(json.dumps(table))
    ascend.environ["RANK_TABLE_FILE"] = str(ascend.folder / "table.json")


NEW = ["rank table", "network", "links", "ASCEND_RT_VISIBLE_DEVICES"]


def test_a_good_machine(ascend):
    write_rank_table(ascend, "1.0")
    name = next(iter(psutil.net_if_addrs()))
    ports = {"HCCL_HOST_SOCKET_PORT_RANGE": "auto", "HCCL_NPU_SOCKET_PORT_RANGE": "16666-16670,16680"}
    ascend.environ.update(
        ports, HCCL_CONNECT_TIMEOUT="1200", ASCEND_RT_VISIBLE_DEVICES="1", HCCL_SOCKET_IFNAME=f"={name}"
    )
    diagnosis = ascend.diagnose()
    assert diagnosis.failures() == ["imports"]
    for check in ["packages", "mindformers", "mpi", "settings", "MULTI_NPU", "devices", "CANN", "HCCL", *NEW]:
        assert diagnosis.level(check) == "ok", diagnosis.findings[check]
    assert diagnosis.level("variables of a job") == diagnosis.level("stale processes") == "ok"
    assert diagnosis.found("devices") == "0: 910B3 OK, 1: 910B3 OK"
    assert diagnosis.found("CANN").startswith("8.0.0 in ")
    assert "HCCL_CONNECT_TIMEOUT 1200 s, HCCL_EXEC_TIMEOUT 1836 s" in diagnosis.found("HCCL")
    assert "not tried" in diagnosis.found("all-reduce over hccl")


def test_held_cards_a_wrong_time_out_and_a_foreign_parallel_mode(ascend):
    show(ascend, npu_smi(process=PROCESS))
    ascend.environ.update(HCCL_CONNECT_TIMEOUT="60", ASCEND_HOME_PATH="")
    script = ascend.folder / "train.py"
    script.write_text("context.set_auto_parallel_context(parallel_mode='semi_auto_parallel')")
    diagnosis = ascend.diagnose(script)
    assert diagnosis.returncode == 1 and set(diagnosis.failures()) == {"CANN", "HCCL", "script"}
    assert "card 1 by 4242 (python)" in diagnosis.found("devices") and "kill 4242" in diagnosis.way_out("devices")
    assert "HCCL_CONNECT_TIMEOUT='60' is not a whole number from 120 to 7200" in diagnosis.found("HCCL")
    assert "set_env.sh" in diagnosis.way_out("CANN")


def test_a_sick_card_and_a_rank_table_that_is_none(ascend):
    show(ascend, npu_smi("Alarm"))
    ascend.environ["RANK_TABLE_FILE"] = str(ascend.folder / "version.cfg")
    put_command(ascend, "hccn_tool", "echo 'permission denied' >&2; exit 1")
    diagnosis = ascend.diagnose()
    assert diagnosis.level("links") == "warning" and "permission denied" in diagnosis.found("links")
    assert set(diagnosis.failures()) == {"devices", "rank table"}
    assert "1: 910B3 Alarm" in diagnosis.found("devices")
    assert "cannot be read as a rank table" in diagnosis.found("rank table")


def test_no_card_and_a_taken_port(ascend):
    show(ascend, "dcmi module initialize failed. ret is -8005")
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = min(taken.getsockname()[1], 65520)
        ascend.environ["HCCL_IF_BASE_PORT"] = str(port)
        diagnosis = ascend.diagnose()
    assert diagnosis.level("links") == "ok", "there is no card to ask for"
    assert diagnosis.failures()[0] == "devices" and "ret is -8005" in diagnosis.found("devices")
    assert diagnosis.level("HCCL") == "warning" and "HCCL_IF_BASE_PORT" in diagnosis.way_out("HCCL")


def test_what_keeps_cards_and_nodes_from_meeting(ascend):
    show_links(ascend, link="link status: DOWN", net_health="net health status: Fault")
    write_rank_table(ascend, "1.2", "super_device_id")
    (ascend.folder / "compiler" / "version.info").write_text("Version=7.6.0.1.220\n")
    ascend.environ.update(
        HCCL_HOST_SOCKET_PORT_RANGE="60000-50000", ASCEND_RT_VISIBLE_DEVICES="1,2", HCCL_IF_IP="192.0.2.7"
    )
    diagnosis = ascend.diagnose()
    assert set(diagnosis.failures()) == {"ASCEND_RT_VISIBLE_DEVICES", "HCCL", "rank table", "network"}
    assert "1,2, but the 2 cards here" in diagnosis.found("ASCEND_RT_VISIBLE_DEVICES")
    assert "HCCL_HOST_SOCKET_PORT_RANGE='60000-50000'" in diagnosis.found("HCCL")
    assert "version 1.2 is for Atlas A3, and there are 910B here" in diagnosis.found("rank table")
    assert "HCCL_IF_IP=192.0.2.7 is no address of this node" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning" and "card 1: link DOWN, health Fault" in diagnosis.found("links")
    assert diagnosis.level("CANN") == "warning"
    assert "compiler is 7.6.0.1.220; MindSpore 2.7.0 is made for 8.2, 8.5" in diagnosis.found("CANN")


def test_other_ways_not_to_meet(ascend):
    show_links(ascend, tls="dev_id:1, tls switch[1](0:disable)")
    write_rank_table(ascend, "1.0", status="initializing")
    with socket.socket() as taken:
        taken.bind(("", 0))
        ports = f"{taken.getsockname()[1]}"
        ascend.environ.update(
            HCCL_HOST_SOCKET_PORT_RANGE=ports, ASCEND_RT_VISIBLE_DEVICES="0,0", HCCL_SOCKET_IFNAME="nonesuch"
        )
        diagnosis = ascend.diagnose()
    assert set(diagnosis.failures()) == {"ASCEND_RT_VISIBLE_DEVICES", "rank table", "network"}
    assert "not a list of different card numbers" in diagnosis.found("ASCEND_RT_VISIBLE_DEVICES")
    assert diagnosis.level("HCCL") == "warning" and f"ports [{ports}] are taken" in diagnosis.found("HCCL")
    assert "HCCL_HOST_SOCKET_PORT_RANGE=auto" in diagnosis.way_out("HCCL")
    assert "'initializing' in place of 'completed'" in diagnosis.found("rank table")
    assert "HCCL_SOCKET_IFNAME=nonesuch fits no interface" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning" and "TLS is not switched alike (0: 0, 1: 1)" in diagnosis.found(
        "links"
    )


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("eth", True),
        ("en,eth", True),
        ("=eth0", True),
        ("=eth", False),
        ("^eth", False),
        ("^=eth1", True),
        ("ib", False),
    ],
)
def test_which_interface_a_word_of_hccl_means(wanted, fits):
    assert _matches(wanted, "eth0") is fits


@pytest.mark.parametrize(
    ("version", "more", "words"),
    [
        ("2.0", (), "version '2.0' is not known"),
        ("1.2", (), "lack super_device_id"),
        ("1.0", ("super_device_id",), "as A3 has"),
    ],
)
def test_a_rank_table_of_another_version(tmp_path, monkeypatch, version, more, words):
    cards = [{"device_id": "0", **dict.fromkeys(more, "0")}]
    (tmp_path / "table.json").write_text(json.dumps({"version": version, "server_list": [{"device": cards}]}))
    monkeypatch.setenv("RANK_TABLE_FILE", str(tmp_path / "table.json"))
    finding = rank_table()
    assert finding.level == "failure" and words in finding.found and "mindnlp-dp run needs none" in finding.way_out
