"""What an optimizer is after MindNLP has loaded its states."""

import mindspore


def count_steps_in_whole_numbers(optimizer) -> None:
    """Make Adam's step counters ints again after MindNLP loaded them.

    MindNLP loads them as float32 tensors, and ``beta ** step`` then rounds differently than in a run that never
    stopped.
    """
    for state in optimizer.state.values():
        if isinstance(state.get("step"), mindspore.Tensor):
            state["step"] = int(state["step"].item())
