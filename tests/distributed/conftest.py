import json

import pytest

from tests.harness import run_ranks_successfully


@pytest.fixture(scope="session")
def engine_outcomes(tmp_path_factory):
    """What ``engines.py`` left on each rank, for (number of ranks, backend): one job for all tests that ask."""
    known = {}

    def outcomes(ranks, backend):
        if (ranks, backend) not in known:
            output = tmp_path_factory.mktemp("engines")
            run_ranks_successfully("engines.py", output, ranks=ranks, backend=backend, log_dir=output / "logs")
            known[ranks, backend] = [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]
        return known[ranks, backend]

    return outcomes
