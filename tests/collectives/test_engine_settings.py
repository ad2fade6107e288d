"""Engines are told how long to wait, how often to say that they are there, and how to sum, unless the user set that."""

import pytest

from mindnlp_dp_plugin.collectives.engine_settings import choose_sum, set_backend_times

VARIABLES = ("MS_CPU_COMM_OP_TIMEOUT", "MS_NODE_TIMEOUT", "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT")
OF_OPEN_MPI = "OMPI_MCA_coll_libnbc_iallreduce_algorithm"


@pytest.mark.parametrize(
    "device, timeout, limits",
    [
        ("CPU", 1800, ("604800", "1830", None, None)),  # a week for ranks at their end; the watchdog comes first
        ("CPU", 0.5, ("604800", "31", None, None)),
        ("Ascend", 1800, (None, None, "1800", "1800")),
        ("Ascend", 60, (None, None, "120", "60")),
        ("Ascend", 100000, (None, None, "7200", "17340")),
    ],
)
def test_they_follow_the_timeout(monkeypatch, device, timeout, limits):
    environ = {}
    monkeypatch.setattr("os.environ", environ)
    set_backend_times(device, timeout)
    assert tuple(environ.get(variable) for variable in VARIABLES) == limits


@pytest.mark.parametrize("device, variable", [("CPU", "MS_CPU_COMM_OP_TIMEOUT"), ("Ascend", "HCCL_EXEC_TIMEOUT")])
def test_what_the_user_set_stays(monkeypatch, device, variable):
    environ = {variable: "77"}
    monkeypatch.setattr("os.environ", environ)
    set_backend_times(device, 1800)
    assert environ[variable] == "77" and len(environ) == 4


@pytest.mark.parametrize(
    "users, bounds",
    [
        ({}, ("1", "1")),
        ({"MS_RETRY_INTERVAL_LOWER": "6"}, ("6", None)),
        ({"MS_RETRY_INTERVAL_UPPER": "9"}, (None, "9")),
    ],
)
def test_heartbeats_come_each_second_unless_the_user_set_a_bound(monkeypatch, users, bounds):
    environ = dict(users)
    monkeypatch.setattr("os.environ", environ)
    set_backend_times("CPU", 1800)
    assert tuple(environ.get(f"MS_RETRY_INTERVAL_{bound}") for bound in ("LOWER", "UPPER")) == bounds


@pytest.mark.parametrize("users, chosen", [({}, "rabenseifner"), ({OF_OPEN_MPI: "ring"}, "ring")])
def test_open_mpi_sums_by_halves_unless_the_user_chose(monkeypatch, users, chosen):
    environ = dict(users)
    monkeypatch.setattr("os.environ", environ)
    choose_sum()
    assert environ == {OF_OPEN_MPI: chosen}
