"""Tests of MindNLP 0.5 run where that is installed: ``make test-mindnlp05`` makes an environment of its own."""

import functools
import json
import sys

import pytest

from mindnlp_dp_plugin import compat
from tests.harness import REPOSITORY, run, run_ranks

collect_ignore_glob = [] if compat.has_mindnlp05() else ["test_*.py"]
PROGRAMS = REPOSITORY / "tests" / "mindnlp05" / "programs"


@pytest.fixture(scope="session")
def ranks_of(tmp_path_factory):
    """Runs a program on ranks, or plainly in one process, once for each way; it is told the folder it writes to."""

    @functools.cache
    def run_once(program, *arguments, ranks, backend="mpi", fails=False, saves_later=False):
        output = tmp_path_factory.mktemp(program.removesuffix(".py"))
        if ranks == 1:
            finished = run([sys.executable, PROGRAMS / program, output, *arguments])
        else:
            way = {"MINDNLP_DP_ASYNC_SAVE": str(int(saves_later))}
            job = dict(ranks=ranks, backend=backend, log_dir=output / "logs", env=way)
            finished = run_ranks(PROGRAMS / program, output, *arguments, **job)
        assert bool(finished.returncode) == fails, f"{finished.stdout}\n{finished.stderr}"
        return output

    return run_once


@pytest.fixture(scope="session")
def notes_of(ranks_of):
    """What each rank of a program has left in ``rankN.json``."""

    def notes(program, *arguments, ranks, **keywords):
        output = ranks_of(program, *arguments, ranks=ranks, **keywords)
        return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]

    return notes


@pytest.fixture
def python():
    """Runs code in a fresh process."""
    return lambda code, **options: run([sys.executable, "-c", code], **options)
