"""Which failures start a job again, and how often."""

import pytest

from mindnlp_dp_plugin.job.error_record import ErrorRecord
from mindnlp_dp_plugin.launch.restarts import Restarts


def error(kind="ValueError", message="row 17 has no text", exit_code=1):
    return ErrorRecord(0, "node", 0, exit_code, kind, message, "", 0)


def test_the_budget_comes_back_with_each_new_checkpoint():
    restarts = Restarts(2)
    assert [restarts.why_not(None, None, None) for _ in range(3)] == [None, None, ""]
    assert [restarts.why_not(None, 9, "out/checkpoint-8") for _ in range(3)] == [None, None, ""]
    assert str(restarts) == "2 of 2 since checkpoint-8"


@pytest.mark.parametrize("kind", ["SyntaxError", "ModuleNotFoundError"])
def test_a_script_that_cannot_run_is_not_started_again(kind):
    assert Restarts(2).why_not(error(kind), None, None) == f"a {kind} would come again"


def test_a_usage_error_is_not_tried_again_another_status_is():
    assert "a command line" in Restarts(2).why_not(error("SystemExit", "2", exit_code=2), None, None)
    assert Restarts(2).why_not(error("SystemExit", "3", exit_code=3), None, None) is None


def test_the_same_exception_at_the_same_step_comes_twice_only():
    restarts = Restarts(9)
    assert restarts.why_not(error(), 5, None) is None
    assert restarts.why_not(error(), 6, None) is None
    assert restarts.why_not(error(message="another"), 6, None) is None
    assert restarts.why_not(None, 6, None) is None, "killed"
    assert restarts.why_not(error(), 6, None) is None
    assert restarts.why_not(error(), 6, "out/checkpoint-5") == "the same ValueError came twice at step 6"


def test_before_training_nothing_is_known_to_come_again():
    restarts = Restarts(9)
    assert [restarts.why_not(error(), None, None) for _ in range(3)] == [None] * 3
