"""Weights, shares and told losses make the mean over everything that was counted."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp import WeightedMean

# Of each micro-step: its count, its mean, and whether gradients are averaged after it although more may come.
MICRO_STEPS = st.lists(
    st.tuples(st.integers(0, 5000), st.floats(-10, 10), st.booleans()), min_size=1, max_size=8
)  # fmt: skip


def run(micro_steps, accumulation, counts_may_differ=True):
    """One optimizer step in a group of one; a parameter's gradient is the micro-step's mean, and so is the loss."""
    parameter = SimpleNamespace(grad=None)
    mean = WeightedMean([parameter], SingleProcess(), accumulation, counts_may_differ)
    told, accumulated = 0.0, []
    for number, (count, value, is_early) in enumerate(micro_steps, start=1):
        weight = mean.weigh(count)
        assert 0 <= weight <= 1 / accumulation
        if weight:
            gradient = np.float64(value) * weight
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        accumulated.append(0.0 if parameter.grad is None else parameter.grad)
        if is_early or number == len(micro_steps):
            parameter.grad = accumulated[-1] * mean.sum_counts()()
        told += mean.record_loss(value if weight else 0.0)
    return parameter.grad, told, accumulated


@given(MICRO_STEPS, st.integers(0, 3))
@example([(0, 1.0, False)], 0)
@example([(0, 1.0, True), (3, 2.0, False)], 0)
def test_the_mean_is_that_over_all_that_was_counted(micro_steps, num_missing):
    counts, values, _ = map(np.array, zip(*micro_steps))
    expected = (counts * values).sum() / counts.sum() if counts.sum() else 0.0
    gradient, told, _ = run(micro_steps, len(micro_steps) + num_missing)
    assert gradient == pytest.approx(expected, abs=1e-5)
    assert told == pytest.approx(expected, abs=1e-5)


@given(st.lists(st.tuples(st.integers(1, 5000), st.just(60000.0), st.just(False)), min_size=1, max_size=8))
def test_what_accumulates_is_never_larger_than_the_largest_gradient(micro_steps):
    *_, accumulated = run(micro_steps, len(micro_steps))
    assert max(accumulated) <= 60000 * (1 + 1e-9)


def test_told_losses_are_the_trainers_own_until_the_sum_of_counts_is_known():
    mean = WeightedMean([], SingleProcess(), 4, counts_may_differ=True)
    mean.weigh(100)
    assert mean.record_loss(6.0) == 6.0 / 4


def test_a_new_step_begins_with_nothing():
    mean = WeightedMean([], SingleProcess(), 1, counts_may_differ=True)
    for count in (5000, 3):
        assert mean.weigh(count) == 1.0
        assert mean.sum_counts()() == 1.0
        assert mean.record_loss(2.0) == 2.0
        mean.reset()
