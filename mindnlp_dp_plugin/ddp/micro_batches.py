"""The micro-batches of a step, and the one order in which they are summed, whatever ranks compute them.

A step is V micro-batches, numbered from 0. N ranks that divide V compute V/N each, which follow each other. Every sum
over micro-batches follows one binary tree over their numbers, so its bits do not depend on N. Training that is the same
on any number of devices is EasyScale's promise (Li et al., "EasyScale: Elastic Training with Consistent Accuracy and
Improved Utilization on GPUs", SC'23), whose workers keep one order by virtual ranks.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective, Work
from mindnlp_dp_plugin.ddp.parts import lengths_of
from mindnlp_dp_plugin.errors import DataParallelError

FEW = 2  # ranks whose sum has one order only


class Node(NamedTuple):
    """Micro-batches ``begin`` to ``end - 1``, summed by a part of the tree.

    A node of several is the sum of two: the left one has the largest power of two of micro-batches that leaves some for
    the right one. So a tree over ranks that hold equal powers of two is the upper part of the tree over micro-batches.
    """

    begin: int
    end: int

    @property
    def children(self) -> tuple["Node", ...]:
        """The two whose sum it is; none of a single micro-batch."""
        size = self.end - self.begin
        if size == 1:
            return ()
        middle = self.begin + 2 ** ((size - 1).bit_length() - 1)
        return Node(self.begin, middle), Node(middle, self.end)

    def within(self, other: "Node") -> list["Node"]:
        """The largest nodes of this part of the tree that ``other`` holds."""
        if other.begin <= self.begin and self.end <= other.end:
            return [self]
        if other.end <= self.begin or self.end <= other.begin:
            return []
        return [node for child in self.children for node in child.within(other)]

    def add_up(self, sums: dict["Node", Any]) -> Any:
        """Its sum, from those of nodes below it."""
        if self in sums:
            return sums[self]
        left, right = self.children
        return add(left.add_up(sums), right.add_up(sums))


class MicroBatches:
    """Which of a step's micro-batches this rank computes.

    Args:
        num: How many all ranks compute; a multiple of ``world_size``.
        world_size: The number of ranks.
        rank: This rank.

    Attributes:
        num: The same.
        mine: The numbers of this rank's, in the order in which it computes them.
        root: The node of all.
        nodes_of_ranks: Whose sums each rank holds when it has computed its own.
        most_nodes: How many any rank holds then.
    """

    def __init__(self, num: int, world_size: int, rank: int):
        self.num = num
        self.root = Node(0, num)
        per_rank = num // world_size
        self.mine = range(rank * per_rank, (rank + 1) * per_rank)
        self.nodes_of_ranks = [self.root.within(Node(first, first + per_rank)) for first in range(0, num, per_rank)]
        self.most_nodes = max(map(len, self.nodes_of_ranks))
        self._sums = {child: node for node in _inner_nodes(self.root) for child in node.children}

    def number(self, micro_step: int) -> int:
        """The number of the micro-batch that this rank computes in a micro-step, counted since training began."""
        return self.mine[micro_step % len(self.mine)]

    def step(self, micro_step: int) -> int:
        """The optimizer step that a micro-step belongs to, both counted since training began."""
        return micro_step // len(self.mine)

    def push(self, held: list[tuple[Node, Any]], node: Node, values: Any, add: Callable) -> None:
        """Hold the sum of a node, or of one above it whose other nodes are held."""
        held.append((node, values))
        while len(held) > 1 and self._sums.get(held[-2][0]) == self._sums.get(held[-1][0]):
            (left, of_left), (_, of_right) = held[-2:]
            held[-2:] = [(self._sums[left], add(of_left, of_right))]


class SumOfMicroBatches:
    """The sum of flat arrays or tensors, one for each micro-batch, in the order of the tree.

    For each micro-batch of this rank but the last ``hold``; for the last ``start``.

    Args:
        micro_batches: Which micro-batches there are.
        collective: The ranks that compute them.
    """

    def __init__(self, micro_batches: MicroBatches, collective: Collective):
        self._micro_batches, self._collective = micro_batches, collective
        self._held: list[tuple[Node, Any]] = []
        self._num_given = 0

    def hold(self, values: Any) -> None:
        """Add the values of the next micro-batch. They are the sum's from now on: do not touch them."""
        if self._num_given == len(self._micro_batches.mine):
            self._refuse(self._num_given + 1)
        number = self._micro_batches.mine[self._num_given]
        self._num_given += 1
        self._micro_batches.push(self._held, Node(number, number + 1), values, add)

    def start(self, values: Any, parts: Sequence | None) -> tuple[Any, Work]:
        """Add the values of the last micro-batch, and start to sum over the ranks. All ranks must call it, in order.

        Args:
            values: A NumPy array or a tensor, as the collective takes them.
            parts: The extents of the part that each rank is to get; None if all get all.

        Returns:
            What holds the sum when the work is done, of an array the same memory; and the work, with this rank's
            ``part``.
        """
        self.hold(values)
        if self._num_given < len(self._micro_batches.mine):
            self._refuse(self._num_given)
        held, self._held, self._num_given = self._held, [], 0
        buffer, collective = held[-1][1], self._collective
        lengths = lengths_of(parts) if parts else None
        has_one_order = collective.world_size <= FEW
        if self._micro_batches.most_nodes > 1 or not (has_one_order or collective.adds_by_tree):
            return buffer, GatheredSum(self._micro_batches, collective, held, lengths)
        return buffer, started(collective, buffer, lengths)

    def _refuse(self, found):
        raise DataParallelError(
            "elastic_determinism: each rank computes {wanted} micro-batches of a step, and this one has {found}. Leave "
            "gradient_accumulation_steps as it is while training: the setting decides it.",
            wanted=len(self._micro_batches.mine),
            found=found,
        )


class GatheredSum(Work):
    """Every rank gets the sums that all hold, and adds them up.

    Each sends what it holds to every other: for one sum each, half as many times as often as a ring of as many ranks.
    """

    def __init__(self, micro_batches: MicroBatches, collective: Collective, held, lengths: Sequence[int] | None):
        self._micro_batches, self._collective, self._lengths = micro_batches, collective, lengths
        self._held = [values for _, values in held]

    def progress(self):
        """It begins when it is waited for."""
        return False

    def wait(self):
        """Gather and add up. All ranks must call it, in the same order."""
        nodes_of_ranks, buffer = self._micro_batches.nodes_of_ranks, self._held[-1]
        most = self._micro_batches.most_nodes
        sent = self._held + [buffer] * (most - len(self._held))  # all send as much
        gathered = self._collective.all_gather(sent[0] if most == 1 else _joined(sent))
        size, sums = buffer.size, {}
        for rank, nodes in enumerate(nodes_of_ranks):
            for place, node in enumerate(nodes):
                begin = (rank * most + place) * size
                sums[node] = gathered[begin : begin + size]
        total = self._micro_batches.root.add_up(sums)
        if self._lengths:
            end = sum(self._lengths[: self._collective.rank + 1])
            begin = end - self._lengths[self._collective.rank]
            self.part = total[begin:end].copy() if begin < end else None
        elif isinstance(buffer, np.ndarray):
            buffer[...] = total
        else:
            buffer.assign_value(total)


def started(collective: Collective, message: Any, lengths: Sequence[int] | None) -> Work:
    """The work that sums a message over the ranks: all of it, or this rank's part of these lengths."""
    return collective.reduce_scatter(message, lengths) if lengths else collective.all_reduce(message)


def add(left: Any, right: Any) -> Any:
    """The sum of two arrays, in the memory of the right one, or of two tensors."""
    return np.add(left, right, out=right) if isinstance(right, np.ndarray) else left + right


def _joined(arrays):
    return np.concatenate(arrays) if isinstance(arrays[0], np.ndarray) else mindspore.ops.cat(arrays)


def _inner_nodes(node):
    return [node, *(inner for child in node.children for inner in _inner_nodes(child))] if node.children else []
