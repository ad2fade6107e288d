"""Where Ray is not installed, one line says what installs it; nothing else asks for it."""

import signal
import sys

from tests.harness import run

WITHOUT = "import sys; sys.modules['ray'] = None; "


def test_without_ray():
    finished = run([sys.executable, "-c", WITHOUT + "import mindnlp_dp_plugin.ray"])
    line = finished.stderr.strip().splitlines()[-1]
    assert "mindnlp_dp_plugin.ray needs Ray" in line and "pip install 'mindnlp-dp-plugin[ray]'" in line
    assert run([sys.executable, "-c", WITHOUT + "import mindnlp_dp_plugin.cli"]).returncode == 0


OFF_THE_MAIN_THREAD = """
import os, pickle, signal, threading, time
import mindnlp_dp_plugin
from mindnlp_dp_plugin.errors import Preempted
from mindnlp_dp_plugin.step import preemption

preemption.hear_for_other_threads()
training = preemption.Preemption()
thread = threading.Thread(target=training.begin)
thread.start()
thread.join()
os.kill(os.getpid(), signal.SIGUSR1)
assert training.votes() == [False, True, False]
is_drained = False
preemption.ask(lambda: is_drained)
assert training.votes() == [False, True, False]
is_drained = True
assert training.votes() == [True, True, False]
training.end()
sent = pickle.loads(pickle.dumps(Preempted(15, "stopped after step 6")))
assert (sent.code, str(sent)) == (143, "stopped after step 6")
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_are_heard_for_a_training_in_another_thread():
    """And when it is over, they end the process as before."""
    finished = run([sys.executable, "-c", OFF_THE_MAIN_THREAD])
    assert finished.returncode == -signal.SIGTERM, finished.stderr
