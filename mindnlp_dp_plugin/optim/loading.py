"""What an optimizer is after MindNLP has loaded its states."""

from collections.abc import Iterator
from contextlib import contextmanager

import mindspore


@contextmanager
def settings_as_built(optimizer) -> Iterator[None]:
    """Take out of the optimizer's groups what loading states adds: settings that one that never stopped lacks.

    MindNLP gives groups the settings that older files have not; a checkpoint that is saved later would hold them.
    """
    built = [set(group) for group in optimizer.param_groups]
    yield
    for names, group in zip(built, optimizer.param_groups):
        for name in group.keys() - names:
            del group[name]


def count_steps_in_whole_numbers(optimizer) -> None:
    """Make Adam's step counters ints again after MindNLP loaded them.

    MindNLP loads them as float32 tensors, and ``beta ** step`` then rounds differently than in a run that never
    stopped.
    """
    for state in optimizer.state.values():
        if isinstance(state.get("step"), mindspore.Tensor):
            state["step"] = int(state["step"].item())
