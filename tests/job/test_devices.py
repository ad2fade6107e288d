"""Which Ascend card a rank takes where ``ASCEND_RT_VISIBLE_DEVICES`` shows it only some. There is no card here."""

import sys

import pytest

from mindnlp_dp_plugin.job import hardware
from mindnlp_dp_plugin.job.cluster import worker_variables
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.rank_info import RankInfo
from tests.harness import run


@pytest.mark.parametrize(
    ("visible", "device"),
    [(None, "1"), ("", "1"), ("4,5", "1"), ("6", "0")],
    ids=["all cards", "an empty list", "those of the node", "the rank's own, as Ray shows it"],
)
def test_a_rank_counts_among_the_cards_that_it_sees_and_keeps_its_local_rank(monkeypatch, visible, device):
    monkeypatch.delenv(hardware.VISIBLE_DEVICES, raising=False)
    if visible is not None:
        monkeypatch.setenv(hardware.VISIBLE_DEVICES, visible)
    variables = worker_variables(RankInfo(rank=3, world_size=4, local_rank=1, local_world_size=2, launcher="torchrun"))
    assert variables["DEVICE_ID"] == device
    again = detect({**variables, "MS_WORKER_NUM": "4"})  # when the script installs the plugin with other settings
    assert (again.rank, again.local_rank, again.local_world_size) == (3, 1, 2)


def test_as_many_ranks_as_there_are_visible_cards(monkeypatch):
    monkeypatch.setattr(hardware, "_cards", lambda: [f"/dev/davinci{number}" for number in range(8)])
    monkeypatch.delenv(hardware.VISIBLE_DEVICES, raising=False)
    assert hardware.num_devices() == 8
    monkeypatch.setenv(hardware.VISIBLE_DEVICES, "4, 5")
    assert hardware.num_devices() == 2


def test_the_peak_of_a_process_is_not_that_of_what_has_started_it():
    child = "from mindnlp_dp_plugin.job import hardware; print(hardware.peak_memory())"
    held = bytearray(300 * 2**20)
    held[::4096] = b"1" * len(held[::4096])
    found = int(run([sys.executable, "-c", child]).stdout)
    assert 2**20 < found < len(held) / 2
