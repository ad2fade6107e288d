"""Random streams that a resumed run continues as if it had never stopped.

Dropout and other operators draw from a stream that depends only on (seed, rank, micro-step) and starts before each
micro-step: nothing needs saving, and ranks drop different units. The generators of Python and NumPy belong to the user;
they are saved and restored.

What a Trainer itself draws from NumPy's generator in a micro-step, as NEFTune's noise, has a stream of that kind.
"""

import importlib
import random
from contextlib import contextmanager
from typing import Any

import mindspore
import numpy as np

# Not reached as an attribute: mindspore.common.seed is a function, too.
operator_seed = importlib.import_module("mindspore.common.seed")


_numpy_stream: dict[str, Any] = {}


def seed_operators(seed: int, rank: int, micro_step: int) -> None:
    """Begin the operators' stream of a micro-step. Seeds of data sets, NumPy and Python are left alone.

    Args:
        seed: The job's seed.
        rank: This rank; or the number of the micro-batch, if it may be on any.
        micro_step: Number of micro-steps the job has done before; or of optimizer steps.
    """
    mixed = seed_of(seed, rank, micro_step)
    _set_operator_seed(mixed)
    mindspore.manual_seed(mixed)  # for the operators of mint, which Ascend runs
    _numpy_stream["seed"] = mixed
    _numpy_stream.pop("state", None)


def seed_of(*place: int) -> int:
    """From where streams begin at a place: of a job's seed, a rank, a micro-step."""
    return int(np.random.SeedSequence(place).generate_state(1)[0])


@contextmanager
def numpy_of_micro_step():
    """Within, NumPy's global generator draws from the micro-step's stream; the user's is as it was found afterwards.

    Outside training that seeds by micro-step, it is the user's.
    """
    if not _numpy_stream:
        yield
        return
    found = np.random.get_state()
    np.random.set_state(_numpy_stream.get("state") or np.random.RandomState(_numpy_stream["seed"]).get_state())
    try:
        yield
    finally:
        _numpy_stream["state"] = np.random.get_state()
        np.random.set_state(found)


@contextmanager
def operators_left_as_found():
    """Restores MindSpore's seed and generator afterwards, so that ranks agree on them again."""
    seed, generator = mindspore.get_seed(), mindspore.get_rng_state()
    try:
        yield
    finally:
        _numpy_stream.clear()
        _set_operator_seed(seed)
        mindspore.set_rng_state(generator)


def host_state() -> dict[str, Any]:
    """The state of Python's and NumPy's global generators, in a form JSON can hold."""
    version, words, gauss = random.getstate()
    name, keys, *rest = np.random.get_state()
    return {"python": [version, list(words), gauss], "numpy": [name, keys.tolist(), *rest]}


def restore_host_state(state: dict[str, Any]) -> None:
    """Restore the state of Python's and NumPy's global generators."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(state["numpy"]))


@contextmanager
def host_at(state: dict[str, Any]):
    """Within, Python's and NumPy's generators draw from a ``host_state``; they go on as before."""
    found = host_state()
    restore_host_state(state)
    try:
        yield
    finally:
        restore_host_state(found)


def _set_operator_seed(seed):
    # mindspore.set_seed would also seed NumPy and the data sets, whose threads may be drawing.
    operator_seed._GLOBAL_SEED = seed
    operator_seed._reset_op_seed()
