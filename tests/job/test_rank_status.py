"""What a rank shows of itself to its launcher."""

import faulthandler
import os

import pytest

from mindnlp_dp_plugin.job import stacks
from mindnlp_dp_plugin.job.rank_status import show_status
from mindnlp_dp_plugin.job.variables import STATUS_DIR


@pytest.fixture
def status_dir(tmp_path, monkeypatch):
    monkeypatch.setenv(STATUS_DIR, str(tmp_path))
    yield tmp_path
    faulthandler.unregister(stacks.SIGNAL)


def test_a_status_that_is_shown_again_opens_no_more_files(status_dir):
    show_status(0)
    before = os.listdir("/proc/self/fd")
    for _ in range(10):
        show_status(0)
    assert os.listdir("/proc/self/fd") == before
