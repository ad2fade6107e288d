"""``mindspore.communication.comm_func``, whose functions give results back, on a CPU."""

import mindspore

from mindnlp_dp_plugin.trainers.mindspore.exchanges import Done, Exchanges


class ResultAndHandle(tuple):
    """The pair that MindSpore's function gives since 2.4, which is also its first half, as what it gave before was."""

    def __new__(cls, result: mindspore.Tensor, handle: Done | None):
        """Make it of both."""
        return super().__new__(cls, (result, handle))

    def __getattr__(self, name):
        return getattr(self[0], name)

    def __str__(self):
        return str(self[0])

    def __truediv__(self, other):
        return self[0] / other

    def __mul__(self, other):
        return self[0] * other

    def __add__(self, other):
        return self[0] + other

    def __sub__(self, other):
        return self[0] - other


class CommFunc:
    """The functions of ``mindspore.communication.comm_func``, under their names.

    Args:
        exchanges: What they are made of.
    """

    works_in_groups = ()

    def __init__(self, exchanges: Exchanges):
        self._exchanges = exchanges

    def all_reduce(self, tensor, op="sum", group=None, async_op=False):
        return self._result(self._exchanges.reduced(tensor, op), async_op)

    def all_gather_into_tensor(self, tensor, group=None, async_op=False):
        return self._result(mindspore.ops.cat(self._exchanges.gathered(tensor)), async_op)

    def reduce_scatter_tensor(self, tensor, op="sum", group=None, async_op=False):
        return self._result(self._exchanges.part(self._exchanges.reduced(tensor, op)), async_op)

    def reduce(self, tensor, dst, op="sum", group=None):
        return self._exchanges.reduced(tensor, op)

    def broadcast(self, tensor, src=0, group=None):
        return self._exchanges.sent(tensor, src)

    def scatter_tensor(self, tensor, src=0, group=None):
        return self._exchanges.part(self._exchanges.sent(tensor, src))

    def gather_into_tensor(self, tensor, dst=0, group=None):
        return mindspore.ops.cat(self._exchanges.gathered(tensor))

    def barrier(self, group=None):
        self._exchanges.group.barrier()

    @staticmethod
    def _result(tensor, async_op):
        return ResultAndHandle(tensor, Done() if async_op else None)
