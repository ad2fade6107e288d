"""Where the threads that share an operator's work stay."""

import os
import threading

import pytest

from mindnlp_dp_plugin.cpu_operators import threads

ALLOWED = os.sched_getaffinity(0)


def affinities(monkeypatch, num_threads):
    """The cores of each thread that computes a piece."""
    monkeypatch.setattr(threads, "_num_threads", num_threads)
    monkeypatch.setattr(threads, "_pool", None)
    all_at_work = threading.Barrier(num_threads)
    found = []

    def compute(part):
        all_at_work.wait(timeout=60)
        found.append(os.sched_getaffinity(0))

    threads.in_parallel(compute, num_threads, num_threads)
    return found


@pytest.mark.skipif(len(ALLOWED) == 1, reason="one core: products are computed where they are called")
def test_as_many_threads_as_cores_stay_on_a_core_each(monkeypatch):
    found = affinities(monkeypatch, len(ALLOWED))
    assert sorted(found, key=min) == [{core} for core in sorted(ALLOWED)]


def test_other_numbers_of_threads_do_not_crowd_the_first_cores(monkeypatch):
    assert affinities(monkeypatch, len(ALLOWED) + 1) == [ALLOWED] * (len(ALLOWED) + 1)
