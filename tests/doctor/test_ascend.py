"""What the doctor reads on Ascend.

There is no NPU to run this on. The texts below are written after what Huawei's documentation and public logs show of
`npu-smi info`, `hccn_tool`, CANN's version.cfg and its errors; the commands are stand-ins.
"""

import psutil
import pytest

from mindnlp_dp_plugin.doctor.ascend import CANN, MINDSPORE, cann, is_meant, trouble_in

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
    ("file", "text", "version"),
    [
        ("version.cfg", VERSION_CFG, "8.0.0"),
        ("x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\n", "8.1.RC1"),
        ("version.cfg", "nothing of the kind\n", None),
    ],
)
def test_versions(tmp_path, monkeypatch, file, text, version):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    words = f"{version} in" if version else "no version found in"
    assert cann().found.startswith(f"{words} {tmp_path}")


def test_mindspore_says_which_versions_of_cann_it_goes_with(tmp_path, monkeypatch, capfd):
    from mindspore.run_check._check_version import AscendEnvChecker

    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler" / "version.info").write_text("Version=7.6.0.1.220\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))  # where MindSpore 2.7 looks
    AscendEnvChecker(None).check_version()
    finding = trouble_in(capfd.readouterr().err, MINDSPORE)
    assert finding.level == "warning" and "version 7.6 does not match, the version of software" in finding.found
    assert "release notes name your CANN" in finding.way_out


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        ("EI0001: Environment variable [HCCL_CONNECT_TIMEOUT] is invalid. Reason: [Value range [120, 7200]]", "unset"),
        ("EI0019: The IP address 10.0.0.1 and port 60000 have already been bound.", "HCCL_IF_BASE_PORT"),
        ("EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound", "ip_local_reserved"),
        ("EI0014: ranktable is invalid, Reason: [The ranktable check is failed]", "status completed, version 1.0"),
        ("EJ0001: Failed to initialize the HCCP process", "wait ten seconds"),
    ],
)
def test_what_cann_says_has_a_way_out(said, way_out):
    finding = trouble_in(f"RuntimeError: Ascend error occurred, error message:\n{said}\n\n", CANN)
    assert finding.level == "failure" and finding.found == said and way_out in finding.way_out


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


def test_a_good_machine(ascend):
    name = next(iter(psutil.net_if_addrs()))
    ascend.environ.update(ASCEND_RT_VISIBLE_DEVICES="1", HCCL_SOCKET_IFNAME=f"={name}")
    diagnosis = ascend.diagnose()
    assert diagnosis.failures() == ["imports"]
    of_cards = ["devices", "CANN", "network", "links", "ASCEND_RT_VISIBLE_DEVICES"]
    for check in ["packages", "mindformers", "mpi", "settings", *of_cards]:
        assert diagnosis.level(check) == "ok", diagnosis.findings[check]
    assert diagnosis.level("variables of a job") == diagnosis.level("stale processes") == "ok"
    assert diagnosis.found("devices") == "0: 910B3 OK, 1: 910B3 OK"
    assert diagnosis.found("CANN").startswith("8.0.0 in ")
    assert "not tried" in diagnosis.found("all-reduce over hccl")


def test_held_cards_no_cann_and_a_foreign_parallel_mode(ascend):
    show(ascend, npu_smi(process=PROCESS))
    ascend.environ["ASCEND_HOME_PATH"] = ""
    script = ascend.folder / "train.py"
    script.write_text("context.set_auto_parallel_context(parallel_mode='semi_auto_parallel')")
    diagnosis = ascend.diagnose(script)
    assert diagnosis.returncode == 1 and set(diagnosis.failures()) == {"CANN", "script"}
    assert "card 1 is held by process 4242 python" in diagnosis.found("devices") and "kill 4242" in diagnosis.way_out(
        "devices"
    )
    assert "set_env.sh" in diagnosis.way_out("CANN")


def test_a_sick_card_and_links_that_only_root_may_ask(ascend):
    show(ascend, npu_smi("Alarm"))
    put_command(ascend, "hccn_tool", "echo 'permission denied' >&2; exit 1")
    diagnosis = ascend.diagnose()
    assert diagnosis.level("links") == "warning" and "permission denied" in diagnosis.found("links")
    assert diagnosis.failures() == ["devices"] and "1: 910B3 Alarm" in diagnosis.found("devices")


def test_no_card(ascend):
    show(ascend, "dcmi module initialize failed. ret is -8005")
    diagnosis = ascend.diagnose()
    assert diagnosis.level("links") == "ok", "there is no card to ask for"
    assert diagnosis.failures()[0] == "devices" and "ret is -8005" in diagnosis.found("devices")
    assert "driver/version.info" in diagnosis.way_out("devices")


def test_what_keeps_cards_and_nodes_from_meeting(ascend):
    show_links(ascend, link="link status: DOWN", net_health="net health status: Fault")
    ascend.environ.update(ASCEND_RT_VISIBLE_DEVICES="1,2", HCCL_IF_IP="192.0.2.7")
    diagnosis = ascend.diagnose()
    assert set(diagnosis.failures()) == {"ASCEND_RT_VISIBLE_DEVICES", "network"}
    assert "1,2 must name different cards, by numbers from 0; here are 2" in diagnosis.found(
        "ASCEND_RT_VISIBLE_DEVICES"
    )
    assert "HCCL_IF_IP=192.0.2.7 is no address and no interface of this node" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning"
    assert "card 1: link DOWN" in diagnosis.found("links") and "card 1: net health Fault" in diagnosis.found("links")


def test_other_ways_not_to_meet(ascend):
    show_links(ascend, tls="dev_id:1, tls switch[1](0:disable)")
    ascend.environ.update(ASCEND_RT_VISIBLE_DEVICES="0,0", HCCL_SOCKET_IFNAME="nonesuch")
    diagnosis = ascend.diagnose()
    assert set(diagnosis.failures()) == {"ASCEND_RT_VISIBLE_DEVICES", "network"}
    assert "0,0 must name different cards" in diagnosis.found("ASCEND_RT_VISIBLE_DEVICES")
    assert "HCCL_SOCKET_IFNAME=nonesuch is no address and no interface" in diagnosis.found("network")
    assert diagnosis.level("links") == "warning"
    assert "TLS is not the same on cards 0 and 1" in diagnosis.found("links")


@pytest.mark.parametrize(
    ("wanted", "is_it"),
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
def test_which_interface_a_word_of_hccl_means(wanted, is_it):
    assert is_meant(wanted, "eth0") is is_it
