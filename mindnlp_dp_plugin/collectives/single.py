"""One process: every collective is already done."""

from mindnlp_dp_plugin.collectives.base import Collective, Work


class SingleProcess(Collective):
    """A group of one, so that nobody has to branch on the world size."""

    rank = 0
    world_size = 1
    local_rank = 0
    local_world_size = 1
    uses_numpy = False  # gradients have nowhere to go, so they stay on the device
    bucket_cap_mb = 25

    def all_reduce(self, buffer):
        return Work()

    def broadcast(self, tensor, src=0):
        pass

    def all_gather_object(self, value):
        return [value]

    def barrier(self):
        pass
