"""``mindspore.mint.distributed``, whose functions write into tensors, on a CPU."""

import mindspore

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.trainers.mindspore.exchanges import TENSORS, Done, Exchanges

OBJECTS = Message("objects, in a collective of MindSpore's")
# What MCCL can do among some of the ranks.
IN_GROUPS = {
    *("get_rank", "get_world_size", "get_process_group_ranks", "get_global_rank", "get_group_rank"),
    *("new_group", "destroy_process_group", "all_reduce", "broadcast", "all_gather"),
}


class Mint:
    """The functions of ``mindspore.mint.distributed``, under their names.

    Args:
        exchanges: What they are made of.
    """

    def __init__(self, exchanges: Exchanges):
        self._exchanges = exchanges
        self._group = exchanges.group
        self.works_in_groups = IN_GROUPS if self._group.forms_cluster else ()

    def init_process_group(self, backend=None, *args, **kwargs):
        """Nothing: the ranks have joined already."""

    def destroy_process_group(self, group=None):
        """Nothing: the plugin goes on."""

    def is_initialized(self):
        return True

    def get_backend(self, group=None):
        return "mccl"

    def new_group(self, ranks=None, timeout=None, backend=None, *args, **kwargs):
        return "mccl_world_group"

    def get_rank(self, group=None):
        return self._group.rank

    def get_world_size(self, group=None):
        return self._group.world_size

    def get_process_group_ranks(self, group=None):
        return list(range(self._group.world_size))

    def get_global_rank(self, group, group_rank):
        return group_rank

    def get_group_rank(self, group, global_rank):
        return global_rank

    def all_reduce(self, tensor, op="sum", group=None, async_op=False):
        return self._write(tensor, self._exchanges.reduced(tensor, op), async_op)

    def reduce(self, tensor, dst, op="sum", group=None, async_op=False):
        total = self._exchanges.reduced(tensor, op)
        return self._write(tensor, total if self._group.rank == dst else tensor, async_op)

    def broadcast(self, tensor, src, group=None, async_op=False):
        return self._write(tensor, self._exchanges.sent(tensor, src), async_op)

    def barrier(self, group=None, async_op=False, device_ids=None):
        self._group.barrier()
        return Done() if async_op else None

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        for target, values in zip(tensor_list, self._exchanges.gathered(tensor), strict=True):
            self._write(target, values)
        return Done() if async_op else None

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        return self._write(output_tensor, mindspore.ops.cat(self._exchanges.gathered(input_tensor)), async_op)

    def reduce_scatter(self, output, input_list, op="sum", group=None, async_op=False):
        totals = self._exchanges.reduced(mindspore.ops.stack(input_list), op)
        return self._write(output, totals[self._group.rank], async_op)

    def reduce_scatter_tensor(self, output, input, op="sum", group=None, async_op=False):
        return self._write(output, self._exchanges.part(self._exchanges.reduced(input, op)), async_op)

    def gather(self, tensor, gather_list=None, dst=0, group=None, async_op=False):
        gathered = self._exchanges.gathered(tensor)
        if self._group.rank == dst:
            for target, values in zip(gather_list, gathered, strict=True):
                self._write(target, values)
        return Done() if async_op else None

    def gather_into_tensor(self, output_tensor, input_tensor, dst=0, group=None, async_op=False):
        gathered = mindspore.ops.cat(self._exchanges.gathered(input_tensor))
        return self._write(output_tensor, gathered if self._group.rank == dst else output_tensor, async_op)

    def scatter(self, tensor, scatter_list, src=0, group=None, async_op=False):
        rows = mindspore.ops.stack(scatter_list) if self._group.rank == src else None
        return self._deal(tensor, rows, src, async_op)

    def scatter_tensor(self, output_tensor, input_tensor, src=0, group=None, async_op=False):
        rows = input_tensor.reshape(-1, *output_tensor.shape) if self._group.rank == src else None
        return self._deal(output_tensor, rows, src, async_op)

    def _deal(self, target, rows, src, async_op):
        values = rows.asnumpy() if self._group.rank == src else None
        mine = self._group.all_gather_object(values, TENSORS)[src][self._group.rank]
        return self._write(target, mindspore.Tensor(mine, dtype=target.dtype), async_op)

    def all_gather_object(self, object_list, obj, group=None):
        object_list[:] = self._group.all_gather_object(obj, OBJECTS)

    def gather_object(self, obj, object_gather_list=None, dst=0, group=None):
        gathered = self._group.all_gather_object(obj, OBJECTS)
        if self._group.rank == dst:
            object_gather_list[:] = gathered

    def broadcast_object_list(self, object_list, src=0, group=None, device=None):
        object_list[:] = self._group.all_gather_object(object_list if self._group.rank == src else None, OBJECTS)[src]

    def scatter_object_list(self, scatter_object_output_list, scatter_object_input_list, src=0, group=None):
        mine = scatter_object_input_list if self._group.rank == src else None
        sent = self._group.all_gather_object(mine, OBJECTS)[src]
        scatter_object_output_list[0] = sent[self._group.rank]

    @staticmethod
    def _write(target, values, async_op=False):
        if tuple(target.shape) != tuple(values.shape) or target.dtype != values.dtype:
            raise DataParallelError(
                "A tensor of shape {found} and {found_dtype} cannot hold a result of shape {shape} and {dtype}: give "
                "one that can.",
                found=tuple(target.shape),
                found_dtype=target.dtype,
                shape=tuple(values.shape),
                dtype=values.dtype,
            )
        if values is not target:
            target.assign_value(values)
        return Done() if async_op else None
