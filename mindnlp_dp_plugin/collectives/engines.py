"""The table of engines: one row each, with all that other rooms need. The class of each is in a file of its own."""

from dataclasses import dataclass

from mindnlp_dp_plugin.language import Message


@dataclass(frozen=True)
class Engine:
    """One kind of engine.

    Attributes:
        name: Its name as a ``backend``.
        device: The MindSpore device it needs.
        forms_cluster: Whether its ranks form MindSpore's cluster, on one node or several, and a collective may wait for
            other ranks when it is started; otherwise mpirun connects them, on one node.
        bucket_cap_mb: The bucket size that suits it, in MB (2**20 bytes).
        check: The name of its check in ``mindnlp-dp doctor``.
    """

    name: str
    device: str
    forms_cluster: bool
    bucket_cap_mb: float
    check: Message

    def load(self) -> type:
        """Import and return the engine's ``Collective``."""
        if self.forms_cluster:
            from mindnlp_dp_plugin.collectives.cluster import MindSporeCollective

            return MindSporeCollective
        from mindnlp_dp_plugin.collectives.mpi import MpiCollective

        return MpiCollective


# Of those for a device, the first that can be used is the default. MindSpore's operators on CPU run when called.
ENGINES = {
    engine.name: engine
    for engine in (
        Engine("hccl", "Ascend", forms_cluster=True, bucket_cap_mb=25, check=Message("all-reduce over hccl")),
        Engine("mpi", "CPU", forms_cluster=False, bucket_cap_mb=4, check=Message("all-reduce over mpi")),
        Engine("mccl", "CPU", forms_cluster=True, bucket_cap_mb=25, check=Message("all-reduce over mccl")),
    )
}


def runs_on(backend: str, device: str) -> bool:
    """Whether ``backend`` names an engine of this device; False for ``auto``."""
    return backend in ENGINES and ENGINES[backend].device == device


def engines_for(device: str) -> list[Engine]:
    """The engines that run on a device, the preferred first."""
    return [engine for engine in ENGINES.values() if engine.device == device]
