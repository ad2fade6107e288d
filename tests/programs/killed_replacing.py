"""Replace a checkpoint by another of the same step, killed before each thing that is done to the file system, in turn.

    python killed_replacing.py OUTPUT

Leaves a folder for each kill in OUTPUT, and one of a replacement that was not killed.
"""

import itertools
import os
import signal
import sys
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from tests.checkpoint.records import record


def save(home, content):
    store.clear_leftovers(home)
    written = store.scratch_folder(home) / "checkpoint-7"
    written.mkdir(parents=True)
    (written / "model.safetensors").write_text(content)
    (written / "trainer_state.json").write_text("{}")
    store.publish(written, home, record(job=content).as_json())


def kill_before(number):
    """The events that Python's audit hooks are told of: files opened, renamed, removed."""
    countdown = itertools.count(number, -1)

    def hook(event, arguments):
        if event.startswith(("open", "os.", "shutil.")) and next(countdown) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


for number in itertools.count():
    home = Path(sys.argv[1], str(number))
    save(home, "old")
    process = os.fork()
    if process == 0:
        kill_before(number)
        save(home, "new")
        os._exit(0)
    if os.waitpid(process, 0)[1] == 0:
        break
