"""The table of engines: one row each, with all that other rooms need. The class of each is in a file of its own."""

import importlib
from dataclasses import dataclass

from mindnlp_dp_plugin.language import Message


@dataclass(frozen=True)
class Engine:
    """One kind of engine.

    Attributes:
        name: Its name as a ``backend``.
        device: The MindSpore device it needs.
        starter: The module of ``launch`` that starts its ranks.
        forms_cluster: Whether its ranks form MindSpore's cluster, on one node or several; otherwise mpirun connects
            them, on one node.
        starting_waits: Whether a collective may wait for the other ranks when it is started.
        bucket_cap_mb: The bucket size that suits it, in MB (2**20 bytes).
        implementation: ``module:class`` in this package.
        check: The name of its check in ``mindnlp-dp doctor``.
    """

    name: str
    device: str
    starter: str
    forms_cluster: bool
    starting_waits: bool
    bucket_cap_mb: float
    implementation: str
    check: Message

    def load(self) -> type:
        """Import and return the engine's ``Collective``."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(f"mindnlp_dp_plugin.collectives.{module}"), name)


# Of those for a device, the first that can be used is the default. MindSpore's operators on CPU run when called.
ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "hccl",
            device="Ascend",
            starter="mindspore_cluster",
            forms_cluster=True,
            starting_waits=True,
            bucket_cap_mb=25,
            implementation="cluster:MindSporeCollective",
            check=Message("all-reduce over hccl"),
        ),
        Engine(
            "mpi",
            device="CPU",
            starter="mpi",
            forms_cluster=False,
            starting_waits=False,
            bucket_cap_mb=4,
            implementation="mpi:MpiCollective",
            check=Message("all-reduce over mpi"),
        ),
        Engine(
            "mccl",
            device="CPU",
            starter="mindspore_cluster",
            forms_cluster=True,
            starting_waits=True,
            bucket_cap_mb=25,
            implementation="cluster:MindSporeCollective",
            check=Message("all-reduce over mccl"),
        ),
    )
}


def runs_on(backend: str, device: str) -> bool:
    """Whether ``backend`` names an engine of this device; False for ``auto``."""
    return backend in ENGINES and ENGINES[backend].device == device


def engines_for(device: str) -> list[Engine]:
    """The engines that run on a device, the preferred first."""
    return [engine for engine in ENGINES.values() if engine.device == device]
