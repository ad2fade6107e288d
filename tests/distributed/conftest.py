import fcntl
import functools
import hashlib
import json
import os

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
            done, failed = (folder / f"{output.name}.{end}" for end in ("done", "failed"))
            assert not failed.exists(), f"it has failed, see {failed}"  # once is enough
            if not done.exists():
                output.mkdir()
                job = dict(ranks=ranks, backend=backend, log_dir=output / "logs", timeout=timeout)
                try:
                    run_ranks_successfully(program, output, *arguments, **job)
                except BaseException as error:
                    failed.write_text(str(error))
                    raise
                done.touch()
        return output

    return run


@pytest.fixture(scope="session")
def engine_outcomes(output_of):
    """What ``engines.py`` left on each rank, for (number of ranks, backend): one job for all tests that ask."""

    def outcomes(ranks, backend):
        output = output_of("engines.py", ranks=ranks, backend=backend)
        return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]

    return outcomes


# What one job runs in turn, with n for the number of ranks or of those that one process stands for. Who changes sizes
# of what is cut comes last.
ALONE_TOO = ("reported.py n", "habits.py n", "packed.py n")
ALONE = (*ALONE_TOO, "caught.py 0", "trains_apart.py mindnlp_adamw")
ON_RANKS = (
    *("trainer_options.py", "async_save.py", "elastic.py", *ALONE_TOO, "killed_once.py", "struck.py 12"),
    *("mixed_precision.py n", "unequal_labels.py n", "resume_scenarios.py", "own_loops.py n"),
    *("sharded_states.py", "read_elsewhere.py 17"),
)


@pytest.fixture(scope="session")
def in_turn(request, output_of):
    """What a program of those that one job runs in turn has left, of ranks or of one process in the place of ``of``.

    It runs by itself for more than two, and where few tests are run, which would wait for what others ask.
    """
    by_themselves = request.session.testscollected < 1000

    def output(program, ranks=1, backend="auto", of=2):
        of = max(ranks, of)
        turns = [turn.replace(" n", f" {of}") for turn in (ON_RANKS if ranks > 1 else ALONE)]
        if of > 2 or by_themselves:
            turns = [turn for turn in turns if turn.split()[0] == program]
        return output_of("in_turn.py", *turns, ranks=ranks, backend=backend, timeout=1800) / program

    return output
