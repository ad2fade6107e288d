"""Who am I: one test per launcher. What noise there may be in the environment is in tests/test_fuzz.py."""

import json

import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.rank_info import RankInfo

MSRUN = {
    "MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4", "MS_NODE_ID": "3", "RANK_ID": "3", "RANK_SIZE": "4", "DEVICE_ID": "1",
    "MS_SCHED_HOST": "10.0.0.1", "MS_SCHED_PORT": "8118",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


@pytest.fixture
def rank_table(tmp_path):
    path = tmp_path / "table.json"
    servers = [[0, 1], [2, 3]]
    devices = [{"device": [{"device_id": str(i % 2), "rank_id": str(i)} for i in ranks]} for ranks in servers]
    path.write_text(json.dumps({"version": "1.0", "server_count": "2", "server_list": devices}))
    return {"RANK_TABLE_FILE": str(path), "RANK_ID": "3", "RANK_SIZE": "4", "DEVICE_ID": "1"}


def test_alone():
    assert detect({}) == RankInfo(0, 1, 0, 1, "none")
    assert detect({"RANK_SIZE": "1", "DEVICE_ID": "5", "RANK_TABLE_FILE": "/etc/table.json"}) == RankInfo()


def test_msrun():
    assert detect(MSRUN) == RankInfo(3, 4, 1, None, "msrun")
    assert detect({**MSRUN, "MS_SCHED_HOST": "127.0.0.1"}).local_world_size == 4
    assert detect({**MSRUN, "MINDNLP_DP_LOCAL_WORLD_SIZE": "2"}).local_world_size == 2


def test_the_scheduler_of_msrun_is_no_rank():
    scheduler = detect({"MS_ROLE": "MS_SCHED", "MS_WORKER_NUM": "4", "RANK_ID": "0"})
    assert scheduler.is_scheduler and scheduler.world_size == 4
    assert not detect(MSRUN).is_scheduler


def test_open_mpi_and_mpich():
    assert detect(OPEN_MPI) == RankInfo(3, 4, 1, 2, "mpirun")
    assert detect(MPICH) == RankInfo(1, 2, 1, 2, "mpirun")


def test_rank_table(rank_table):
    assert detect(rank_table) == RankInfo(3, 4, 1, 2, "ranktable")


def test_msrun_wins_over_mpi_and_mpi_over_a_rank_table(rank_table):
    assert detect({**rank_table, **OPEN_MPI}).launcher == "mpirun"
    assert detect({**rank_table, **OPEN_MPI, **MSRUN}).launcher == "msrun"


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (MSRUN, {"MS_ROLE": "MS_PAPER"}, ["MS_ROLE='MS_PAPER'", "MS_WORKER"]),
        (MSRUN, {"MS_NODE_ID": None}, ["MS_NODE_ID is not set", "--node_rank"]),
        (MSRUN, {"MS_NODE_ID": "4"}, ["MS_NODE_ID='4' is not a whole number from 0 to 3", "--node_rank"]),
        (MSRUN, {"MS_WORKER_NUM": "two"}, ["MS_WORKER_NUM='two'", "msrun"]),
        (MSRUN, {"DEVICE_ID": "-1"}, ["DEVICE_ID='-1'"]),
        (OPEN_MPI, {"OMPI_COMM_WORLD_RANK": "x"}, ["OMPI_COMM_WORLD_RANK='x'", "mpirun"]),
        (OPEN_MPI, {"OMPI_COMM_WORLD_LOCAL_RANK": None}, ["OMPI_COMM_WORLD_LOCAL_RANK is not set"]),
        (OPEN_MPI, {"OMPI_COMM_WORLD_SIZE": "0"}, ["OMPI_COMM_WORLD_SIZE='0' is not a whole number from 1"]),
        ({"RANK_SIZE": "2"}, {}, ["RANK_ID is not set", "unset RANK_SIZE"]),
        ({"RANK_SIZE": "2", "RANK_ID": "abc"}, {}, ["RANK_ID='abc'"]),
        ({"RANK_SIZE": "2", "RANK_ID": "2"}, {}, ["RANK_ID='2' is not a whole number from 0 to 1"]),
        ({"RANK_SIZE": "2", "RANK_ID": "1"}, {}, ["RANK_TABLE_FILE", "before mindnlp"]),
        ({"RANK_SIZE": "2", "RANK_ID": "1", "RANK_TABLE_FILE": "/nowhere"}, {}, ["RANK_TABLE_FILE='/nowhere'"]),
    ],
)
def test_bad_values_are_named_with_the_way_out(base, change, words):
    environ = {name: value for name, value in {**base, **change}.items() if value is not None}
    with pytest.raises(DataParallelError) as caught:
        detect(environ)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_rank_table_that_does_not_fit(rank_table):
    with pytest.raises(DataParallelError, match="each of the ranks 0 to 7 once, as RANK_SIZE=8"):
        detect({**rank_table, "RANK_SIZE": "8"})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"server_list": [1]}', '{"server_list": [{"device": [{}]}]}', "\0"])
def test_a_rank_table_that_is_none(rank_table, tmp_path, text):
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(DataParallelError, match="RANK_TABLE_FILE="):
        detect(rank_table)
