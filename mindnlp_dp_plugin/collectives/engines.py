"""The table of engines: one row each. The class of each is in a file of its own."""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """One kind of engine.

    Attributes:
        name: Its name as a ``backend``.
        device: The MindSpore device it needs.
        needs_mpirun: Whether mpirun starts its ranks; otherwise they form MindSpore's dynamic cluster.
        bucket_cap_mb: The bucket size that suits it, in MB (2**20 bytes).
        implementation: ``module:class`` in this package.
    """

    name: str
    device: str
    needs_mpirun: bool
    bucket_cap_mb: float
    implementation: str

    def load(self) -> type:
        """Import and return the engine's ``Collective``."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(f"mindnlp_dp_plugin.collectives.{module}"), name)


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("hccl", "Ascend", needs_mpirun=False, bucket_cap_mb=25, implementation="cluster:MindSporeCollective"),
        Engine("mccl", "CPU", needs_mpirun=False, bucket_cap_mb=25, implementation="cluster:MindSporeCollective"),
        Engine("mpi", "CPU", needs_mpirun=True, bucket_cap_mb=4, implementation="mpi:MpiCollective"),
    )
}


def runs_on(backend: str, device: str) -> bool:
    """Whether ``backend`` names an engine of this device; False for ``auto``."""
    return backend in ENGINES and ENGINES[backend].device == device


def engines_for(device: str) -> list[Engine]:
    """The engines that run on a device, in the order of the table."""
    return [engine for engine in ENGINES.values() if engine.device == device]
