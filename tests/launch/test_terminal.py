"""What the launcher says, apart from its threads."""

import threading

import pytest

from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.launch.terminal import View, say
from tests.launch.pieces import PROMPTLY_S


def test_messages_leave_no_threads(capfd):
    others = threading.enumerate()  # those of other tests, and of pytest-xdist: more may come, and end
    for number in range(20):
        say(f"{number} ")
    own = [thread for thread in threading.enumerate() if thread not in others and thread.name.endswith("(write)")]
    for thread in own:
        thread.join(PROMPTLY_S)
    assert not [thread for thread in own if thread.is_alive()]
    assert capfd.readouterr().err == "".join(f"{number} " for number in range(20))


@pytest.mark.parametrize("ranks, begins", [([0], ""), ([0, 1], "[rank 0] ")])
def test_what_mindspore_says_as_it_leaves_its_cluster_is_in_the_log_alone(tmp_path, capfd, ranks, begins):
    leaves = (
        "[INFO] DISTRIBUTED(7,7fc7,python):2026 [mindspore/tcp_client.cc:367] Start] Event base dispatch success!\n"
    )
    for rank in ranks:
        rank_log(tmp_path, rank).write_text("")
    rank_log(tmp_path, 0).write_text(f"done\n{leaves}{leaves}[INFO] the script's own\n")
    view = View(tmp_path, ranks)
    view.show_all(view.sizes(), 5)
    assert not view.is_alive()
    assert capfd.readouterr().out == f"{begins}done\n{begins}[INFO] the script's own\n"
