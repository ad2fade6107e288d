"""A schedule that is made for one process's steps is named, and no other."""

import mindnlp_dp_plugin  # isort: skip  # noqa: F401

from types import SimpleNamespace

import pytest
from mindnlp.common.optimization import get_linear_schedule_with_warmup
from mindnlp.core import nn, optim
from mindnlp.core.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from mindnlp_dp_plugin.collectives.pretended import PretendedRank
from mindnlp_dp_plugin.trainers.schedules import ScheduleLength


def linear(optimizer, num_steps):
    return get_linear_schedule_with_warmup(optimizer, 2, num_steps)


def own(optimizer, num_steps):
    return LambdaLR(optimizer, lambda step: 1 - step / num_steps)


@pytest.mark.parametrize(
    "make, length, ranks, is_named",
    [
        (linear, 40, 2, True),
        (linear, 39, 2, True),  # the last batch of the whole rows is short
        (CosineAnnealingLR, 60, 3, True),
        (linear, 20, 2, False),
        (linear, 40, 1, False),
        (linear, 40, 3, False),
        (own, 40, 2, False),  # it does not say
    ],
)
def test_a_schedule_for_the_steps_of_one_process_is_named(caplog, make, length, ranks, is_named):
    scheduler = make(optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), length)
    state = SimpleNamespace(max_steps=20)
    ScheduleLength(PretendedRank(ranks)).on_train_begin(None, state, None, lr_scheduler=scheduler)
    told = f"The learning rate's schedule is made for {length} steps, and this training makes 20, as {ranks} ranks"
    assert (told in caplog.text) == is_named, caplog.text
