"""A cluster of two nodes on this machine, for all tests that train."""

import os

import psutil
import pytest

from tests.harness import REPOSITORY, run_ranks_successfully
from tests.ray.runs import sha256_of

GONE_WITHIN_S = 30
MARK = "TESTED_BY"  # what the nodes of these tests start inherits it


@pytest.fixture(scope="session")
def cluster():
    """Its nodes have a CPU each, so that two workers are on two nodes."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Workers find what tests give them to do, and the plugin, where this process does.
    os.environ["PYTHONPATH"], os.environ[MARK] = str(REPOSITORY), str(os.getpid())
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The digest of the model that ``mindnlp-dp run`` ends with."""
    output = tmp_path_factory.mktemp("undisturbed")
    run_ranks_successfully(
        REPOSITORY / "tests" / "ray" / "functions.py", output, ranks=2, backend="mccl", log_dir=output / "logs"
    )
    return sha256_of(output)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test no worker is there, and no scheduler of MindSpore's."""
    yield
    if MARK in os.environ:
        _, alive = psutil.wait_procs(list(ranks_of_ray()), timeout=GONE_WITHIN_S)
        assert not [process.cmdline() for process in alive]


def ranks_of_ray():
    for process in psutil.process_iter():
        try:
            environ = process.environ()
            if environ.get(MARK) == str(os.getpid()) and environ.get("MINDNLP_DP_JOB", "").startswith("ray-"):
                yield process
        except psutil.Error:
            pass
