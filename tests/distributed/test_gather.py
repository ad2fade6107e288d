"""Rows of several ranks, put together: whatever they are, and however unequally they were dealt out."""

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import Tensor
from numpy.testing import assert_array_equal

from mindnlp_dp_plugin.distributed.gather import PADDING, join, to_numpy

DTYPES = [np.float32, np.float16, np.int64, np.int32]
MANY = settings(max_examples=150)


class Output(NamedTuple):
    logits: np.ndarray
    hidden: np.ndarray


# What a model may return, made of arrays of one entry a row.
STRUCTURES = st.sampled_from(
    [
        lambda draw: draw(),
        lambda draw: (draw(), draw()),
        lambda draw: [draw(), (draw(), {"x": draw()})],
        lambda draw: {"logits": draw(), "layers": [draw()]},
        lambda draw: Output(draw(), draw()),
    ]
)


def leaves(structure):
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


def pick(structure, rows, length=None):
    """Some rows of each array; of those with a second axis, its beginning."""
    if isinstance(structure, dict):
        return {key: pick(part, rows, length) for key, part in structure.items()}
    if isinstance(structure, Output):
        return Output(*(pick(part, rows, length) for part in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(pick(part, rows, length) for part in structure)
    return structure[rows] if structure.ndim < 2 else structure[rows, :length]


@MANY
@given(
    STRUCTURES,
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.lists(st.integers(1, 6), min_size=5, max_size=5),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_rows_of_ranks_come_together_each_once(make, num_rows_of_ranks, lengths, are_numbered, chance):
    num_rows = sum(num_rows_of_ranks)
    seed = chance.randrange(2**32)
    random = np.random.default_rng(seed)

    def draw():
        shape = [(num_rows,), (num_rows, 6), (num_rows, 6, 2)][random.integers(3)]
        return random.integers(-50, 50, shape).astype(DTYPES[random.integers(len(DTYPES))])

    whole = make(draw)
    order = random.permutation(num_rows) if are_numbered else np.arange(num_rows)
    bounds = np.cumsum([0, *num_rows_of_ranks])
    dealt = [order[begin:end].tolist() for begin, end in zip(bounds, bounds[1:])]
    parts = []
    for rows, length in zip(dealt, lengths):
        if are_numbered and rows and chance.random() < 0.5:
            rows = [*rows, rows[0]]  # a padded shard
        parts.append((pick(whole, rows, length), rows if are_numbered else None) if rows else None)
    together = join(parts)

    if not num_rows:
        assert together is None
        return
    assert type(together) is type(whole)
    width = max(length for rows, length in zip(dealt, lengths) if rows)
    for found, expected in zip(leaves(together), leaves(whole), strict=True):
        assert found.dtype == expected.dtype and len(found) == num_rows
        if expected.ndim == 1:
            assert_array_equal(found, expected)
            continue
        assert found.shape[1:] == (width, *expected.shape[2:])
        for rows, length in ((rows, length) for rows, length in zip(dealt, lengths) if rows):
            assert_array_equal(found[rows, :length], expected[rows, :length])
            assert (found[rows, length:] == PADDING).all()


@MANY
@given(STRUCTURES, st.integers(1, 4))
def test_tensors_become_arrays_wherever_they_are(make, num_rows):
    array = np.arange(num_rows * 3, dtype=np.float32).reshape(num_rows, 3)
    found = to_numpy(make(lambda: Tensor(array)))
    assert type(found) is type(make(lambda: array))
    for leaf in leaves(found):
        assert isinstance(leaf, np.ndarray)
        assert_array_equal(leaf, array)
