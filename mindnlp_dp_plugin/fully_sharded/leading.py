"""One rank reads and changes parameters one at a time, and the others give it what they have."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.fully_sharded.buckets import SharedBucket, hand_out
from mindnlp_dp_plugin.language import Message

READ, CHANGE = "read", "change"
ASKED = Message("the parameter that a rank saves or loads")


class Leading:
    """Of the rank that leads; several may, and read the same. ``end`` lets the others go.

    Args:
        bucket_of: The bucket of each parameter, by its identity.
        named: The parameters, by name.
        collective: The ranks that share them out.
    """

    def __init__(self, bucket_of: dict[int, SharedBucket], named: dict[str, Any], collective: Collective):
        self._bucket_of, self._named, self._collective = bucket_of, named, collective
        self._names = {id(parameter): name for name, parameter in named.items()}
        self._handed_out = {}

    def holds(self, tensor) -> bool:
        """Whether it is a parameter that has to be asked for."""
        return id(tensor) in self._bucket_of and id(tensor) not in self._handed_out

    def blocks(self, parameter) -> Iterator[np.ndarray]:
        """A parameter's values, flat, a few MB at a time. To be used up."""
        self._ask(READ, self._names[id(parameter)])
        return self._bucket_of[id(parameter)].values_of(parameter)

    def change(self, parameter, values_of: Callable[[int, int], np.ndarray]) -> None:
        """Let a parameter have other values. One rank alone may lead.

        Args:
            parameter: The parameter.
            values_of: Its values from an element to another, flat, in its dtype, in memory of their own.
        """
        self._ask(CHANGE, self._names[id(parameter)])
        self._bucket_of[id(parameter)].take(parameter, values_of, self._collective.rank)

    def hand_out(self, parameters: Iterable) -> None:
        """Let these be whole on this rank until the end."""
        for parameter in filter(self.holds, list(parameters)):
            values, end = np.empty(parameter.size, mindspore.dtype_to_nptype(parameter.dtype)), 0
            for block in self.blocks(parameter):
                values[end : end + block.size] = block
                end += block.size
            hand_out(parameter, mindspore.Tensor.from_numpy(values.reshape(parameter.shape)))
            self._handed_out[id(parameter)] = self._bucket_of[id(parameter)]

    def end(self) -> list[SharedBucket]:
        """Let the others go on; the buckets of what was handed out."""
        self._ask(None, None)
        return list(dict.fromkeys(self._handed_out.values()))

    def follow(self) -> None:
        """Take part, until all that lead have ended."""
        while (asked := self._ask(None, None)) is not None:
            src, (what, name) = asked
            parameter = self._named[name]
            bucket = self._bucket_of[id(parameter)]
            if what == CHANGE:
                bucket.take(parameter, None, src)
            else:
                for _ in bucket.values_of(parameter):
                    pass

    def _ask(self, what, name):
        everyone = self._collective.all_gather_object((what, name), ASKED)
        return next(((rank, asked) for rank, asked in enumerate(everyone) if asked[0]), None)
