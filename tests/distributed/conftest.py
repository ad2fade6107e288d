import functools
import json

import pytest

from tests.harness import run_ranks_successfully


@pytest.fixture(scope="session")
def output_of(tmp_path_factory):
    """Runs a program of ``tests/programs`` on ranks, once for each way, and returns the folder it has written to.

    The program's first argument is that folder.
    """

    @functools.cache
    def run(program, *arguments, ranks=1, backend="auto", timeout=300):
        output = tmp_path_factory.mktemp(f"{program.removesuffix('.py')}_{ranks}_{backend}")
        job = dict(ranks=ranks, backend=backend, log_dir=output / "logs", timeout=timeout)
        run_ranks_successfully(program, output, *arguments, **job)
        return output

    return run


@pytest.fixture(scope="session")
def engine_outcomes(output_of):
    """What ``engines.py`` left on each rank, for (number of ranks, backend): one job for all tests that ask."""

    def outcomes(ranks, backend):
        output = output_of("engines.py", ranks=ranks, backend=backend)
        return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]

    return outcomes
