"""What the doctor reads on Ascend.

There is no NPU to run this on. The texts below are written after what Huawei's documentation and public logs show of
`npu-smi info`, CANN's version.cfg and the driver's version.info; the command that prints the first is a stand-in.
"""

import socket

import pytest

from mindnlp_dp_plugin.doctor.ascend import parse_npu_smi, parse_version

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


@pytest.fixture
def ascend(clinic):
    """A machine that looks as if it had two cards and CANN, until something is started on them."""
    (clinic.folder / "bin").mkdir()
    show(clinic, npu_smi())
    clinic.environ["PATH"] = f"{clinic.folder / 'bin'}:/usr/bin:/bin"
    clinic.environ["ASCEND_HOME_PATH"] = str(clinic.folder)
    (clinic.folder / "version.cfg").write_text(VERSION_CFG)
    clinic.put_first("mindspore/__init__.py", "raise ImportError('no MindSpore for Ascend here')")
    return clinic


def show(clinic, text):
    command = clinic.folder / "bin" / "npu-smi"
    command.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    command.chmod(0o755)


def test_a_good_machine(ascend):
    ascend.environ["HCCL_CONNECT_TIMEOUT"] = "1200"
    diagnosis = ascend.diagnose()
    assert diagnosis.failures() == ["imports"]
    for check in ["packages", "mindformers", "mpi", "settings", "MULTI_NPU", "devices", "CANN", "HCCL"]:
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
    diagnosis = ascend.diagnose()
    assert set(diagnosis.failures()) == {"devices", "HCCL"}
    assert "1: 910B3 Alarm" in diagnosis.found("devices") and "rank table" in diagnosis.found("HCCL")


def test_no_card_and_a_taken_port(ascend):
    show(ascend, "dcmi module initialize failed. ret is -8005")
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = min(taken.getsockname()[1], 65520)
        ascend.environ["HCCL_IF_BASE_PORT"] = str(port)
        diagnosis = ascend.diagnose()
    assert diagnosis.failures()[0] == "devices" and "ret is -8005" in diagnosis.found("devices")
    assert diagnosis.level("HCCL") == "warning" and "HCCL_IF_BASE_PORT" in diagnosis.way_out("HCCL")
