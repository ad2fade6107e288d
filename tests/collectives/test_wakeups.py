"""While MindSpore connects, and when it leaves, its threads do not preempt each other; else nothing is seen of it."""

import os
import sys
import threading

import pytest

from mindnlp_dp_plugin.collectives.wakeups import stop_preemption, without_preemption

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="policies of Linux")


def policies():
    return {os.sched_getscheduler(int(thread)) for thread in os.listdir("/proc/self/task")}


def test_threads_that_are_started_meanwhile_are_as_others_afterwards():
    before, release = policies(), threading.Event()
    with without_preemption():
        thread = threading.Thread(target=release.wait)
        thread.start()
        assert os.sched_getscheduler(0) == os.sched_getscheduler(thread.native_id) == os.SCHED_BATCH
    try:
        assert policies() == before == {os.SCHED_OTHER}
    finally:
        release.set()
        thread.join()


def test_all_threads_of_a_process_that_ends():
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        stop_preemption()
        assert policies() == {os.SCHED_BATCH}
    finally:
        for each in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(each), os.SCHED_OTHER, os.sched_param(0))
        release.set()
        thread.join()


def test_a_policy_that_a_user_has_chosen_stays():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        with without_preemption():
            assert os.sched_getscheduler(0) == os.SCHED_BATCH
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
