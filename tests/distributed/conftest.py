import fcntl
import functools
import hashlib
import json
import os
import shutil

import pytest

from tests.harness import run_ranks_successfully


@pytest.fixture(scope="session")
def output_of(tmp_path_factory):
    """Runs a program of ``tests/programs`` on ranks, once for each way, and returns the folder it has written to.

    The program's first argument is that folder. Processes of pytest-xdist share what each of them has run.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    @functools.cache
    def run(program, *arguments, ranks=1, backend="auto", timeout=900):
        way = hashlib.sha256(repr(arguments).encode()).hexdigest()[:8]
        output = folder / f"{program.removesuffix('.py')}_{ranks}_{backend}_{way}"
        with (folder / f"{output.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / f"{output.name}.done").exists():
                shutil.rmtree(output, ignore_errors=True)  # what a failed job has left
                output.mkdir()
                job = dict(ranks=ranks, backend=backend, log_dir=output / "logs", timeout=timeout)
                run_ranks_successfully(program, output, *arguments, **job)
                (folder / f"{output.name}.done").touch()
        return output

    return run


@pytest.fixture(scope="session")
def engine_outcomes(output_of):
    """What ``engines.py`` left on each rank, for (number of ranks, backend): one job for all tests that ask."""

    def outcomes(ranks, backend):
        output = output_of("engines.py", ranks=ranks, backend=backend)
        return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]

    return outcomes


ALONE_TOO = ("reported.py 2", "habits.py 2", "packed.py 2")
ALONE = (*ALONE_TOO, "caught.py 0", "trains_apart.py mindnlp_adamw")
ON_RANKS = ("trainer_options.py", "async_save.py", "elastic.py", *ALONE_TOO, "killed_once.py", "struck.py 12")


@pytest.fixture(scope="session")
def in_turn(output_of):
    """What a program of those that train in turn in one job has left, of two ranks or of one process in their place."""

    def output(program, ranks=1, backend="auto"):
        return output_of("in_turn.py", *(ON_RANKS if ranks > 1 else ALONE), ranks=ranks, backend=backend) / program

    return output
