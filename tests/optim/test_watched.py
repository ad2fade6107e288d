"""For which optimizers the plugin answers."""

from mindnlp_dp_plugin.optim.watched import WatchedSteps, is_watched, trusted
from mindnlp_dp_plugin.patching import Patches


class Optimizer:
    def __init__(self, inner=None):
        self.inner = inner

    def step(self):
        self.seen = is_watched(self)
        if self.inner:
            self.inner.step()


def test_an_optimizer_is_answered_for_while_it_is_watched():
    patches = Patches()
    optimizer, other = Optimizer(), Optimizer()
    WatchedSteps(patches).watch(optimizer)
    assert is_watched(optimizer) and not is_watched(other)
    patches.undo()
    assert not is_watched(optimizer)


def test_what_a_watched_optimizer_wraps_may_step_with_it_and_not_alone():
    inner = Optimizer()
    outer = Optimizer(inner)
    WatchedSteps(Patches()).watch(outer)
    outer.step()
    assert outer.seen and inner.seen
    inner.step()
    assert not inner.seen


def test_within_trusted_everything_may_step():
    optimizer = Optimizer()
    with trusted():
        optimizer.step()
    assert optimizer.seen and not is_watched(optimizer)
