"""MindSpore's reducer of gradients and its operators: counted where they work, answered or refused over MPI."""

import mindspore
import numpy as np
from mindspore import nn
from mindspore.nn.wrap import grad_reducer
from mindspore.ops.operations import comm_ops

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.guard import Summed, compiler, is_graph_mode, tensors_in

SUMS = ("AllReduce", "ReduceScatter", "AllGather")
OPERATORS = (
    *SUMS,
    *("Reduce", "Broadcast", "NeighborExchange", "AlltoAll", "NeighborExchangeV2", "CollectiveScatter"),
    *("CollectiveGather", "Barrier", "Send", "Receive", "BatchISendIRecv", "AlltoAllV", "AllGatherV"),
)


def count_sums(summed: Summed, patches: Patches) -> None:
    """Note what MindSpore's own reducer and operators sum, over engines that form its cluster.

    Args:
        summed: Notes it.
        patches: Restores MindSpore.
    """

    def __init__(stock, operator, *args, **kwargs):
        with summed.apart():  # a reducer makes operators, which its graph calls
            stock(operator, *args, **kwargs)
        summed.note_operator(operator)

    def __call__(stock, operator, *args, **kwargs):
        summed.note_call(operator, tensors_in(args))
        return stock(operator, *args, **kwargs)

    for kind in (grad_reducer.DistributedGradReducer, *(getattr(comm_ops, name) for name in SUMS)):
        patches.stand_in(kind, __init__)
        patches.stand_in(kind, __call__)


def answer_over_mpi(group: Collective, summed: Summed, patches: Patches) -> None:
    """Let the reducer sum through MPI, called from Python; refuse what needs MindSpore's cluster.

    It is long because what stands in for MindSpore's classes is defined here, where it sees the ranks.

    Args:
        group: The ranks.
        summed: Notes what is summed.
        patches: Restores MindSpore.
    """

    class DistributedGradReducer(nn.Cell):
        """Averages gradients as MindSpore's does, through the plugin's engine."""

        def __init__(self, parameters, mean=None, degree=None, fusion_type=1, group=None):
            super().__init__(auto_prefix=False)
            if mean is None:
                mean = mindspore.get_auto_parallel_context("gradients_mean")
            self.factor = np.float32(1 / (degree or ranks.world_size)) if mean else None
            summed.note_operator(self)
            self.is_summed = [not parameter.layerwise_parallel for parameter in parameters]

        def __call__(self, grads):
            is_one = isinstance(grads, mindspore.Tensor)
            averaged = self.averaged((grads,) if is_one else tuple(grads))
            return averaged[0] if is_one else averaged

        def averaged(self, grads):
            """The gradients, averaged where they are to be."""
            chosen = [grad for grad, is_summed in zip(grads, self.is_summed) if is_summed]
            summed.note_call(self, chosen)
            arrays = [grad.astype(mindspore.float32).asnumpy() for grad in chosen]
            buffer = np.concatenate([array.reshape(-1) for array in arrays] or [np.empty(0, np.float32)])
            ranks.all_reduce(buffer).wait()
            if self.factor is not None:
                buffer *= self.factor
            parts = iter(np.split(buffer, np.cumsum([array.size for array in arrays])[:-1])) if arrays else iter(())
            return tuple(
                mindspore.Tensor(next(parts).reshape(grad.shape), dtype=grad.dtype) if is_summed else grad
                for grad, is_summed in zip(grads, self.is_summed)
            )

    def get_parse_method_of_class(stock, cell, *args, **kwargs):
        if isinstance(cell, DistributedGradReducer):
            _refuse_in_graph("nn.DistributedGradReducer")
        return stock(cell, *args, **kwargs)

    def __call__(stock, step, *args, **kwargs):
        # Before it is compiled, for then MindSpore logs its own stack first.
        if is_graph_mode() and isinstance(step.grad_reducer, DistributedGradReducer):
            _refuse_in_graph(f"nn.{type(step).__name__}")
        return stock(step, *args, **kwargs)

    def refused(name):
        def __init__(operator, *args, **kwargs):
            raise DataParallelError(
                "mindspore.ops.{name} needs MindSpore's own cluster, which MPI does not have: start the script with "
                "`mindnlp-dp run --backend mccl` or msrun.",
                name=name,
            )

        return __init__

    ranks = group
    patches.replace_everywhere({grad_reducer.DistributedGradReducer: DistributedGradReducer})
    for name in OPERATORS:
        if hasattr(comm_ops, name):
            patches.replace(getattr(comm_ops, name), "__init__", refused(name))
    patches.stand_in(compiler(), get_parse_method_of_class)
    patches.stand_in(nn.TrainOneStepCell, __call__)


def _refuse_in_graph(what):
    raise DataParallelError(
        "mindspore.{what} in a graph needs MindSpore's own cluster, which MPI does not have: start the script with "
        "`mindnlp-dp run --backend mccl` or msrun.",
        what=what,
    )
