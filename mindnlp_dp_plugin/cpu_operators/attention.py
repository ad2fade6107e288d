"""Attention that keeps no scores for backward: they are computed again, a block of queries at a time.

Source: "FlashAttention" (Dao et al., 2022), whose tiles keep what they need in fast memory. A block here is a few
queries of some heads with all keys that they may see: so each row is normalised at once, and rounds as without blocks.
"""

from typing import NamedTuple

import numpy as np

from mindnlp_dp_plugin.cpu_operators import threads
from mindnlp_dp_plugin.cpu_operators.arrays import array_of, summed_to, tensor_of
from mindnlp_dp_plugin.cpu_operators.blas import GROUP, LEAST_WORK
from mindnlp_dp_plugin.cpu_operators.compiled import ONE, ZERO, compiled, compiled_sums, exponential, largest_of_rows
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable

BLOCK = 2**19  # scores at a time: few enough for a cache, and rows enough for BLAS
HIDDEN = np.float32(-1e30)  # what a mask adds where nothing is to be seen is less
AXES = 4  # rows, heads, queries, keys
NUM_INPUTS = 5  # before the tensors that are added


class Divided(NamedTuple):
    """By a number."""

    number: np.float32


class Added(NamedTuple):
    """The tensor with this number."""

    index: int


class Filled(NamedTuple):
    """With a number, where a mask does not say that it stays."""

    stays: np.ndarray
    number: np.float32


class Kept(NamedTuple):
    """What dropout leaves: a bit for each weight."""

    bits: np.ndarray
    scale: np.float32


class Attention(OnceDifferentiable):
    """Weighs values, given queries, keys, values, the steps to the scores, what dropout leaves, and what is added.

    It has many attributes because backward computes again from what forward was given, several threads at a time.
    """

    def compute(self, queries, keys, values, steps, kept, *tensors):
        """As of ``Operator``."""
        self._queries, self._keys, self._values = map(array_of, (queries, keys, values))
        self._shape = (*queries.shape[:-1], keys.shape[-1])
        self._steps, self._kept = steps, kept
        self._added = [np.broadcast_to(array_of(tensor), self._shape) for tensor in tensors]
        self._shapes = [tensor.shape for tensor in tensors]
        self._changes = [bool(array_of(tensor).any()) for tensor in tensors]  # no mask hides anything of full rows
        self._ends = [self._ends_of_keys(row) for row in range(self._shape[0])]
        self._of_added = []
        self._largest, self._totals = np.empty((2, *self._shape[:-1]), np.float32)
        # Attention's values have contiguous rows; heads in the same layout need no transposing.
        order = "K" if self._values.strides[-1] == self._values.itemsize else "C"
        shape = (*self._shape[:-1], values.shape[-1])
        self._result = np.empty_like(self._values, np.float32, order, shape=shape)
        self._over_heads(self._forward)
        result = tensor_of(self._result)
        self.save_for_backward(queries, keys, values, *tensors, result)  # MindSpore raises if one is written to
        return result

    def gradients(self, gradient):
        """As of ``Operator``."""
        *_, result = self.saved_tensors
        self._result, self._gradient = array_of(result), array_of(gradient)
        self._found = [np.empty_like(array) for array in (self._queries, self._keys, self._values)]
        self._of_added = [
            np.zeros((1,) * (AXES - len(shape)) + tuple(shape), np.float32)
            if self.needs_gradient(NUM_INPUTS + index)
            else None
            for index, shape in enumerate(self._shapes)
        ]
        self._over_heads(self._backward)
        of_added = [
            None if values is None else tensor_of(values.reshape(shape))
            for values, shape in zip(self._of_added, self._shapes)
        ]
        return *map(tensor_of, self._found), None, None, *of_added

    def _over_heads(self, compute):
        """Compute for some heads of a row at a time; threads share heads, as a row's masks may be others' too."""
        num_rows, num_heads, num_queries, num_keys = self._shape
        step = max(1, min(num_heads, BLOCK // (num_queries * num_keys)))
        groups = [slice(begin, min(begin + step, num_heads)) for begin in range(0, num_heads, step)]
        work = num_rows * num_heads * num_queries * num_keys * self._queries.shape[-1]
        num_pieces = max(1, min(threads.number(), len(groups), work // LEAST_WORK))
        if any(total is not None and total.shape[1] == 1 for total in self._of_added):  # heads add to the same
            num_pieces = 1

        def compute_groups(part):
            for heads in groups[part]:
                for row in range(num_rows):
                    compute(row, heads)

        threads.in_parallel(compute_groups, len(groups), num_pieces)

    def _blocks(self, row):
        """Queries that are computed together, and how many keys they may see."""
        num_queries, step = self._shape[2], self._num_queries
        for number, begin in enumerate(range(0, num_queries, step)):
            yield slice(begin, min(begin + step, num_queries)), self._ends[row][number]

    @property
    def _num_queries(self):
        """Of a block: BLAS begins anew behind so many, and rounds as it would all at once."""
        return max(GROUP, BLOCK // self._shape[-1] // GROUP * GROUP)

    def _ends_of_keys(self, row):
        """For each block of queries the number of keys, behind which masks hide all from each of them."""
        num_queries, num_keys = self._shape[2:]
        blocks = [slice(begin, begin + self._num_queries) for begin in range(0, num_queries, self._num_queries)]
        masks = [
            (array[row, 0], lambda mask: mask > HIDDEN)
            for array, shape in zip(self._added, self._shapes)
            if len(shape) < 3 or shape[-3] == 1
        ]
        masks += [
            (step.stays[row, 0], lambda mask: mask)
            for step in self._steps
            if isinstance(step, Filled) and step.number < HIDDEN and step.stays.strides[1] == 0
        ]
        if not any(mask.strides[0] for mask, _ in masks):  # alike for all queries
            return [num_keys] * len(blocks)
        return [_last(np.logical_and.reduce([seen(mask[block]) for mask, seen in masks])) for block in blocks]

    def _scores(self, row, heads, queries, num_keys):
        """What a block's scores become before they are normalised."""
        scores = np.matmul(self._queries[row, heads, queries], self._keys[row, heads, :, :num_keys])
        at = (row, heads, queries, slice(num_keys))
        for step in self._steps:
            if isinstance(step, Divided):
                scores /= step.number
            elif isinstance(step, Added):
                if self._changes[step.index]:
                    scores += self._added[step.index][at]
            else:
                np.copyto(scores, step.number, where=~step.stays[at])
        return scores

    def _forward(self, row, heads):
        for queries, num_keys in self._blocks(row):
            scores = self._scores(row, heads, queries, num_keys)
            rows = scores.reshape(-1, num_keys)
            largest = largest_of_rows(rows)
            largest[largest == -np.inf] = 0
            totals = np.empty_like(largest)
            _normalise(rows, largest, totals)
            at = (row, heads, queries)
            self._largest[at], self._totals[at] = largest.reshape(scores.shape[:-1]), totals.reshape(scores.shape[:-1])
            if self._kept:
                _drop(rows, self._is_kept(row, heads, queries, num_keys), self._kept.scale)
            np.matmul(scores, self._values[row, heads, :num_keys], out=self._result[at])

    def _backward(self, row, heads):
        of_keys = np.zeros(self._keys[row, heads].swapaxes(-1, -2).shape, np.float32)
        of_values = np.zeros(self._values[row, heads].shape, np.float32)
        of_queries, all_of_keys, all_of_values = self._found
        for queries, num_keys in self._blocks(row):
            at = (row, heads, queries)
            gradient = np.ascontiguousarray(self._gradient[at])
            weights = self._scores(row, heads, queries, num_keys)
            changes = np.matmul(gradient, self._values[row, heads, :num_keys].swapaxes(-1, -2))
            along = np.einsum("hqd,hqd->hq", gradient, self._result[at]).reshape(-1)
            rows, of_rows = weights.reshape(-1, num_keys), changes.reshape(-1, num_keys)
            _again(rows, self._largest[at].reshape(-1), self._totals[at].reshape(-1))
            if self._kept:
                _differentiate_kept(
                    rows, along, of_rows, self._is_kept(row, heads, queries, num_keys), self._kept.scale
                )
            else:
                _differentiate(rows, along, of_rows)
            of_values[:, :num_keys] += np.matmul(weights.swapaxes(-1, -2), gradient)
            self._undo_steps(changes, (*at, slice(num_keys)))
            np.matmul(changes, self._keys[row, heads, :, :num_keys].swapaxes(-1, -2), out=of_queries[at])
            of_keys[:, :num_keys] += np.matmul(changes.swapaxes(-1, -2), self._queries[at])
        all_of_keys[row, heads], all_of_values[row, heads] = of_keys.swapaxes(-1, -2), of_values

    def _undo_steps(self, changes, at):
        """Of the gradient of a block's scores make that of its product, and add up those of what was added."""
        for step in reversed(self._steps):
            if isinstance(step, Divided):
                changes /= step.number
            elif isinstance(step, Filled):
                np.copyto(changes, ZERO, where=~step.stays[at])
            elif (total := self._of_added[step.index]) is not None:
                whole = total[tuple(slice(None) if size == 1 else part for size, part in zip(total.shape, _ranges(at)))]
                whole += summed_to(whole.shape, changes[None])

    def _is_kept(self, row, heads, queries, num_keys):
        """Which of a block's weights dropout leaves, for each row of keys."""
        _, num_heads, num_queries, all_keys = self._shape
        found = []
        for head in range(heads.start, heads.stop):
            first = ((row * num_heads + head) * num_queries + queries.start) * all_keys
            last = first + (queries.stop - queries.start) * all_keys
            bits = np.unpackbits(self._kept.bits[first // 8 : -(-last // 8)])[first % 8 :][: last - first]
            found.append(bits.reshape(-1, all_keys)[:, :num_keys])
        return found[0] if len(found) == 1 else np.concatenate(found)


def _ranges(at):
    row, *others = at
    return (slice(row, row + 1), *others)


def _last(is_seen):
    """Behind the last place that any row sees; all, if a row sees none: its weights are then alike everywhere."""
    num_keys = is_seen.shape[-1]
    if not is_seen.any(axis=1).all():
        return num_keys
    return num_keys - int(is_seen.any(axis=0)[::-1].argmax())


# In place, as scores need no memory twice. Where input and output may be one, the compiler adds number by number: so
# softmax's, which has two, is a loop of its own.
@compiled_sums
def _normalise(x, largest, totals):
    num_rows, length = x.shape
    for row in range(num_rows):
        total = ZERO
        for i in range(length):
            x[row, i] = exponential(x[row, i] - largest[row])
            total += x[row, i]
        total = ONE if total == ZERO else total
        totals[row] = total
        for i in range(length):
            x[row, i] /= total


@compiled
def _drop(x, is_kept, scale):
    num_rows, length = x.shape
    for row in range(num_rows):
        for i in range(length):
            x[row, i] *= scale if is_kept[row, i] else ZERO


@compiled_sums
def _again(x, largest, totals):
    num_rows, length = x.shape
    for row in range(num_rows):
        share = ONE / totals[row]
        for i in range(length):
            x[row, i] = exponential(x[row, i] - largest[row]) * share


@compiled_sums
def _differentiate(weights, along, changes):
    num_rows, length = weights.shape
    for row in range(num_rows):
        for i in range(length):
            changes[row, i] = (changes[row, i] - along[row]) * weights[row, i]


@compiled_sums
def _differentiate_kept(weights, along, changes, is_kept, scale):
    num_rows, length = weights.shape
    for row in range(num_rows):
        for i in range(length):
            factor = scale if is_kept[row, i] else ZERO
            changes[row, i] = (changes[row, i] * factor - along[row]) * weights[row, i]
            weights[row, i] *= factor
