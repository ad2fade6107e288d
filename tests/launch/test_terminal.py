"""What the launcher says, apart from its threads."""

import threading

from mindnlp_dp_plugin.launch.terminal import say


def test_messages_leave_no_threads(capfd):
    say("the first ")
    before = threading.active_count()
    for number in range(20):
        say(f"{number} ")
    assert threading.active_count() == before
    assert capfd.readouterr().err == "the first " + "".join(f"{number} " for number in range(20))
