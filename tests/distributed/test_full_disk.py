"""A disk that is full ends the job with the reason, and no half of a checkpoint takes the room that is left."""

import subprocess
import sys

import pytest

from tests.harness import run

IN_ITS_OWN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
# Room for one checkpoint of the tiny model, which takes some 600 KB, and for half of another.
SMALL_DISK = "mount -t tmpfs -o size=900k tmpfs {disk} && {{ {command}; status=$?; ls -A {disk}; exit $status; }}"

SAVES = """
import sys
from tests.programs.tiny import tiny_trainer
tiny_trainer(sys.argv[1], save_strategy="steps", save_steps=1).train()
"""


@pytest.fixture
def disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs tmpfs {disk}"
    if subprocess.run([*IN_ITS_OWN_NAMESPACE, mount], capture_output=True).returncode:
        pytest.skip("this system lets no user mount a file system of their own")
    return disk


@pytest.mark.parametrize("async_save", ["0", "1"])
def test_a_full_disk_is_named_and_what_was_written_of_the_checkpoint_is_gone(disk, tmp_path, async_save):
    script = tmp_path / "saves.py"
    script.write_text(SAVES)
    command = f"{sys.executable} -m mindnlp_dp_plugin.cli run --nproc 2 --backend mpi --log-dir {tmp_path}/logs "
    command += f"{script} {disk}"
    way = {"MINDNLP_DP_ASYNC_SAVE": async_save}
    finished = run([*IN_ITS_OWN_NAMESPACE, SMALL_DISK.format(disk=disk, command=command)], timeout=120, env=way)
    assert finished.returncode == 1, finished.stderr
    assert finished.stderr.startswith("mindnlp-dp: rank 0 on "), finished.stderr
    assert "No space left on device" in finished.stderr
    assert finished.stdout.split()[-1] == "checkpoint-1", finished.stdout
