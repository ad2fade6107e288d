"""Whether the tests still notice: one fault at a time in modules of the core, in a copy of the project.

    python benchmarks/planted_faults.py [MODULE ...]

Prints the test that fails first for each. Takes 20 minutes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
# Module, what stands there, what is planted in its place, and the tests that are to notice.
FAULTS = [
    ("ddp/reducer.py", "1 / self._collective.world_size", "1", "distributed/test_reducers.py"),
    ("ddp/bucket.py", "values = values + accumulated.asnumpy()", "pass", "distributed/test_reducers.py"),
    ("ddp/replicas.py", " or tensor._data_ptr() in taken", "", "ddp/test_replicas.py"),
    ("data/sampler.py", "self._rank + self._start * self._num_replicas", "self._rank + self._start", "data"),
    ("data/shard.py", "if batches or shuffles or", "if batches or", "data"),
    ("data/evaluation.py", "num_kept, num_replicas * batch_size)", "num_kept, batch_size)", "data"),
    (
        "collectives/windows.py",
        "range(0, len(values) - distance, 2 * distance)",
        "range(0, len(values) - distance, 4 * distance)",
        "collectives",
    ),
    (
        "optim/cut_buckets.py",
        "max(begin, own.at), min(end,",
        "max(begin, own.at + 1), min(end,",
        "distributed/test_sharded_states.py",
    ),
    ("step/labels.py", "(labels[..., 1:] if leaves_out == FIRST else labels)", "labels", "trainers"),
    ("checkpoint/store.py", "digest(folder / name) != digests[name]", "False", "checkpoint"),
    (
        "launch/monitor.py",
        " or self._signals.is_urgent",
        "",
        "launch/test_launcher.py::test_a_second_signal_ends_everybody_at_once",
    ),
    (
        "job/environments/torchrun.py",
        'number(environ, "MASTER_PORT", HINT, 1, 65534) + 1',
        'number(environ, "MASTER_PORT", HINT, 1, 65534)',
        "job",
    ),
    ("mixed_precision/autocast.py", "if mindspore.float32 in found else", "if not found else", "mixed_precision"),
]


def first_failure(copy, tests):
    """The first of the tests that fails in a copy of the project."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", f"tests/{tests}"]
    env = {**os.environ, "PYTHONPATH": str(copy)}
    finished = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    return re.search("^(?:FAILED|ERROR) (.*)", finished.stdout, re.MULTILINE)


def notice(module, was, planted, tests):
    """What the tests say to a fault; whether they do."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".*", "build", "results", "*.egg-info"))
        path = copy / "mindnlp_dp_plugin" / module
        text = path.read_text()
        assert text.count(was) == 1, f"{module} has not one {was!r}"
        path.write_text(text.replace(was, planted))
        failed = first_failure(copy, tests)
        print(f"{module}: {failed[1][:100] if failed else 'NOBODY NOTICED'}", flush=True)
        return bool(failed)


def main():
    wanted = sys.argv[1:] or [module for module, *_ in FAULTS]
    noticed = [notice(*fault) for fault in FAULTS if fault[0] in wanted]
    sys.exit(not (noticed and all(noticed)))


if __name__ == "__main__":
    main()
