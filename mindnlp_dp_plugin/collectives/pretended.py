"""A rank whose peers are not there, so that one process can show what a rank needs."""

import functools

from mindnlp_dp_plugin.collectives.engines import engines_for
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.job.hardware import has_ascend


class PretendedRank(SingleProcess):
    """Rank 0 of some on this node; what it would get from the others is what it sends.

    Its buckets are those of MPI, in memory that stays for the next ones; on Ascend those of HCCL.

    Args:
        world_size: How many ranks there would be.
    """

    def __init__(self, world_size: int):
        self.world_size = self.local_world_size = world_size
        self.uses_numpy = not has_ascend()
        engine = engines_for("CPU" if self.uses_numpy else "Ascend")[0]
        self.forms_cluster, self.bucket_cap_mb = engine.forms_cluster, engine.bucket_cap_mb

    @functools.cached_property
    def _memory(self):
        from mindnlp_dp_plugin.collectives.shared_memory import SharedMemory  # a rank is pinned before NumPy is loaded

        return SharedMemory()

    def memory_for(self, size, dtype):
        return self._memory.take(size, dtype) if self.uses_numpy else super().memory_for(size, dtype)

    def all_reduce(self, buffer):
        buffer *= self.world_size
        return super().all_reduce(buffer)

    def all_gather(self, part):
        import mindspore
        import numpy as np

        return (np.concatenate if self.uses_numpy else mindspore.ops.cat)([part] * self.world_size)

    def all_gather_object(self, value, purpose=None):
        return [value] * self.world_size
