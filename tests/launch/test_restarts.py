"""Which failures start a job again, and how often."""

import pytest

from mindnlp_dp_plugin.job.error_record import ErrorRecord
from mindnlp_dp_plugin.launch.restarts import Restarts


def killed(step=None):
    return ErrorRecord(0, 137, message="killed by SIGKILL", step=step)


def raised(exception="ValueError", message="row 17 has no text", exit_code=1, step=None):
    return ErrorRecord(0, exit_code, exception, message, step=step)


def test_the_budget_comes_back_when_training_gets_further_than_ever():
    restarts = Restarts(2)
    assert [restarts.why_not(killed()) for _ in range(3)] == [None, None, ""]
    assert [restarts.why_not(killed(step)) for step in (9, 8, 9)] == [None, None, ""]
    assert str(restarts) == "restart 2 of 2 since step 9"
    assert restarts.why_not(killed(10)) is None


@pytest.mark.parametrize("kind", ["SyntaxError", "ModuleNotFoundError"])
def test_a_script_that_cannot_run_is_not_started_again(kind):
    assert Restarts(2).why_not(raised(kind)) == f"a {kind} would occur again"


def test_a_usage_error_is_not_tried_again_another_status_is():
    assert "rejected its command line" in Restarts(2).why_not(raised("SystemExit", "2", exit_code=2))
    assert Restarts(2).why_not(raised("SystemExit", "3", exit_code=3)) is None


def test_the_same_exception_at_the_same_step_comes_twice_only():
    restarts = Restarts(9)
    assert restarts.why_not(raised(step=5)) is None
    assert restarts.why_not(raised(step=6)) is None
    assert restarts.why_not(raised(message="another", step=6)) is None
    assert restarts.why_not(killed(6)) is None
    assert restarts.why_not(raised(step=6)) is None
    assert restarts.why_not(raised(step=6)) == "the same ValueError came twice at step 6"


def test_before_training_nothing_is_known_to_come_again():
    restarts = Restarts(9)
    assert [restarts.why_not(raised()) for _ in range(3)] == [None] * 3
