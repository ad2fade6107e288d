"""What ``train_families.py`` left behind, read and compared."""

import json

import numpy as np

PARAMETERS, LOSSES = 2e-6, 1e-5


def journal(folder, rank=0):
    """How far each case came: a dict of the case to its last line."""
    path = folder / f"journal.rank{rank}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["case"]: line for line in lines}


def result(folder, case, rank=0):
    return np.load(folder / f"{case.replace('/', '.')}.rank{rank}.npz")


def difference(ours, theirs):
    """The largest difference of parameters after training that began with the same.

    Raises:
        AssertionError: If it is more than rounding, or losses differ by more.
    """
    np.testing.assert_array_equal(ours["before"], theirs["before"], "they began with other weights")
    parameters, losses = (float(np.abs(ours[name] - theirs[name]).max()) for name in ("after", "losses"))
    assert parameters <= PARAMETERS, f"parameters differ by {parameters:.1e}"
    assert losses <= LOSSES, f"losses differ by {losses:.1e}"
    return parameters


def difference_of_ranks(one_process, ranks, num_ranks, case):
    """``difference`` between one process and rank 0.

    Raises:
        AssertionError: As ``difference``, and if ranks differ from each other in a bit.
    """
    results = [result(ranks, case, rank) for rank in range(num_ranks)]
    for other in results[1:]:
        for name in ("after", "losses"):
            np.testing.assert_array_equal(other[name], results[0][name], "ranks differ")
    return difference(results[0], result(one_process, case))
