"""One process: every collective is already complete."""

from mindnlp_dp_plugin.collectives.base import Collective, Work


class SingleProcess(Collective):
    """The collective of a single process, so that callers need not branch on the world size."""

    rank = 0
    world_size = 1
    local_rank = 0
    local_world_size = 1
    uses_numpy = False  # nothing is sent, so gradients stay on the device
    bucket_cap_mb = 25

    def all_reduce(self, buffer):
        return Work()

    def all_gather(self, part):
        return part.copy()

    def broadcast(self, tensor, src=0):
        pass

    def all_gather_object(self, value, purpose=None):
        return [value]

    def barrier(self):
        pass
