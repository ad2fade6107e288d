"""The engines that carry collectives: one row each, and one file each for the class."""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """One way in which ranks exchange tensors.

    Attributes:
        name: What ``backend`` calls it.
        device: What MindSpore runs on.
        needs_mpirun: Whether its ranks are started by mpirun; otherwise they form MindSpore's dynamic cluster.
        implementation: ``module:class`` in this package.
    """

    name: str
    device: str
    needs_mpirun: bool
    implementation: str

    def load(self) -> type:
        """The ``Collective`` of this engine; imports what it needs."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(f"mindnlp_dp_plugin.collectives.{module}"), name)


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("hccl", "Ascend", needs_mpirun=False, implementation="cluster:MindSporeCollective"),
        Engine("mccl", "CPU", needs_mpirun=False, implementation="cluster:MindSporeCollective"),
        Engine("mpi", "CPU", needs_mpirun=True, implementation="mpi:MpiCollective"),
    )
}


def runs_on(backend: str, device: str) -> bool:
    """Whether ``backend`` names an engine of this device; ``auto`` does not."""
    return backend in ENGINES and ENGINES[backend].device == device


def engines_for(device: str) -> list[Engine]:
    """The engines that run on a device, in the order of the table."""
    return [engine for engine in ENGINES.values() if engine.device == device]
