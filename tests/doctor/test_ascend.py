"""What the doctor reads on Ascend.

There is no NPU to run this on. The texts below are written after what Huawei's documentation and public logs show of
`npu-smi info`, `hccn_tool`, CANN's version.cfg and the driver's version.info; the commands are stand-ins.
"""

import json
import re
import socket

import psutil
import pytest

from mindnlp_dp_plugin.doctor.ascend import fitting_cann_versions, trouble_in, version_in
from mindnlp_dp_plugin.doctor.hccl import fits, ports_in, rank_table

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


def test_the_first_trouble_is_told_of_all_cards():
    assert trouble_in(npu_smi(), "npu-smi") is None
    busy = trouble_in(npu_smi(process=f"{PROCESS}\n{NAMELESS}"), "npu-smi")
    assert busy.found == "card 1 is held by process 4242 python; card 1 is held by process 4243 "
    assert "kill 4242 4243 if" in busy.way_out
    assert trouble_in(npu_smi("Alarm", PROCESS), "npu-smi").found == "card 1: 910B3 Alarm"
    assert trouble_in("0 link status: UP \n0 net health status: Success", "hccn_tool") is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (VERSION_CFG, "8.0.0"),
        ("package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001\n", "8.1.RC1"),
        ("Version=24.1.rc3\nascendhal_version=7.35.23\npackage_version=24.1.rc3\n", "24.1.rc3"),
        ("nothing of the kind\n", None),
    ],
)
def test_versions(tmp_path, text, version):
    (tmp_path / "version.info").write_text(text)
    assert version_in(tmp_path / "gone", tmp_path / "version.info") == version


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


NEW = ["HCCL ports", "rank table", "network", "links", "ASCEND_RT_VISIBLE_DEVICES"]


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
    assert "1200 s to connect, 1836 s for a collective" in diagnosis.found("HCCL")
    assert "not tried" in diagnosis.found("all-reduce over hccl")


def test_held_cards_a_wrong_time_out_and_a_foreign_parallel_mode(ascend):
    show(ascend, npu_smi(process=PROCESS))
    ascend.environ.update(HCCL_CONNECT_TIMEOUT="60", ASCEND_HOME_PATH="")
    script = ascend.folder / "train.py"
    script.write_text("context.set_auto_parallel_context(parallel_mode='semi_auto_parallel')")
    diagnosis = ascend.diagnose(script)
    assert diagnosis.returncode == 1 and set(diagnosis.failures()) == {"CANN", "HCCL", "script"}
    assert "card 1 is held by process 4242 python" in diagnosis.found("devices") and "kill 4242" in diagnosis.way_out(
        "devices"
    )
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
    assert diagnosis.level("HCCL") == "ok" and diagnosis.level("HCCL ports") == "warning"
    assert f"ports [{port}] are taken" in diagnosis.found("HCCL ports")
    assert "HCCL_IF_BASE_PORT" in diagnosis.way_out("HCCL ports")


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
    assert "version '1.2', status 'completed', 2 of 2 cards with super_device_id; here are 910B3" in diagnosis.found(
        "rank table"
    )
    assert "HCCL_IF_IP=192.0.2.7 is no address and no interface of this node" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning"
    assert "card 1: link DOWN" in diagnosis.found("links") and "card 1: net health Fault" in diagnosis.found("links")
    assert diagnosis.level("CANN") == "warning"
    assert "compiler is 7.6.0.1.220; MindSpore is made for 8.2, 8.5" in diagnosis.found("CANN")


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
    assert f"ports [{ports}] are taken" in diagnosis.found("HCCL ports")
    assert "HCCL_HOST_SOCKET_PORT_RANGE=auto" in diagnosis.way_out("HCCL ports")
    assert "status 'initializing'" in diagnosis.found("rank table")
    assert "status completed" in diagnosis.way_out("rank table")
    assert "HCCL_SOCKET_IFNAME=nonesuch is no address and no interface" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning"
    assert "TLS is not switched alike on cards 0 and 1" in diagnosis.found("links")


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
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
def test_which_interface_a_word_of_hccl_means(wanted, is_meant):
    assert fits(wanted, "eth0") is is_meant


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("60000", [60000]),
        ("60000-60002, 60010", [60000, 60001, 60002, 60010]),
        *(
            (text, [])
            for text in ("auto", "", "60000-50000", "0-3", "65530-65536", "60000,59999-60001", "1-2-3", "eth0")
        ),
    ],
)
def test_which_ports_a_text_lists(text, ports):
    assert ports_in(text) == ports


@pytest.mark.parametrize(("version", "more"), [("2.0", ()), (None, ()), ("1.2", ()), ("1.0", ("super_device_id",))])
def test_a_rank_table_of_another_version(tmp_path, monkeypatch, version, more):
    cards = [{"device_id": "0", **dict.fromkeys(more, "0")}]
    (tmp_path / "table.json").write_text(json.dumps({"version": version, "server_list": [{"device": cards}]}))
    monkeypatch.setenv("RANK_TABLE_FILE", str(tmp_path / "table.json"))
    finding = rank_table()
    assert finding.level == "failure" and f"version {version!r}" in finding.found
    assert f"{len(more)} of 1 cards" in finding.found and "mindnlp-dp run needs none" in finding.way_out
