"""One all-reduce per parameter, after backward: what the bucketed reducer has to equal, to the last bit."""

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket, HostBucket


class NaiveReducer:
    """The scheme of MindNLP's own ``update_gradient_by_distributed_type``, made correct. An oracle: never fast.

    Args:
        parameters: What the optimizer updates, in the same order on all ranks.
        collective: The ranks to average over.
    """

    def __init__(self, parameters, collective: Collective):
        self._parameters = list(parameters)
        self._collective = collective
        self._bucket_type = HostBucket if collective.uses_numpy else DeviceBucket

    def prepare(self) -> None:
        """Nothing to do before backward."""

    def finish(self) -> None:
        """Leave the mean over all ranks in every parameter's ``.grad``. To be called on all ranks, after backward."""
        for parameter in self._parameters:
            bucket = self._bucket_type([parameter], self._collective)
            bucket.put(0, parameter.grad, None, 1 / self._collective.world_size)
            bucket.start().wait()
            parameter.grad = bucket.gradients()[0]

    def close(self) -> None:
        """Nothing to take off."""
