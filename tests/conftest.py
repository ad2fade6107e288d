"""The same commit draws the same examples everywhere; ``pytest --hypothesis-profile others`` draws others. None has a
deadline: the machine may do other work."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("others", deadline=None)
settings.register_profile("repeatable", settings.get_profile("others"), derandomize=True)
settings.load_profile("repeatable")


def pytest_configure():
    """What tests start speaks English, and takes signals as from a terminal: a shell lets jobs in the background ignore
    these. Ranks that wait for others leave their core to whoever can use it: Open MPI would spin.
    """
    os.environ["MINDNLP_DP_LANG"] = "en"
    os.environ["OMPI_MCA_mpi_yield_when_idle"] = "1"  # noqa: SIM112
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Marks what starts ranks, the launcher or another command: each does so through a function of tests/harness.

    Files of tests/distributed take turns with others, so that seldom two jobs of ranks run at once under pytest-xdist.
    """
    kinds = {is_job: {} for is_job in (True, False)}
    for item in items:
        kinds["distributed" in item.path.parts].setdefault(item.path, None)
    place = {path: number / len(files) for files in kinds.values() for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])
    for item in items:
        fixtures = {"runner", "clinic", "output_of"} & set(item.fixturenames)
        if fixtures or any(
            getattr(value, "__module__", None) == "tests.harness" for value in vars(item.module).values()
        ):
            item.add_marker(pytest.mark.ranks)
