"""What Ray's controller does with a group of workers: tell each which rank it is, and let them join."""

from dataclasses import dataclass, field
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.ray import worker


@dataclass
class MindNLPConfig(BackendConfig):
    """How the workers join.

    Attributes:
        settings: The plugin's: ``backend`` names the engine, ``timeout`` is how many seconds a rank waits for others.
            None takes those of ``MINDNLP_DP_*`` where ``MindNLPTrainer`` is made.
        job: Which run of Ray Train the workers belong to; ``MindNLPTrainer`` fills it in.

    Raises:
        DataParallelError: For a wrong value.

    Examples:
        >>> config = MindNLPConfig(settings=DataParallelConfig(timeout=600))
        >>> trainer = MindNLPTrainer(train, mindnlp_config=config)
    """

    settings: DataParallelConfig | None = None
    job: str = field(default="", repr=False)

    def __post_init__(self):
        if self.settings is None:
            self.settings = DataParallelConfig.from_env()
        if self.settings.backend == "mpi":
            raise DataParallelError(
                "backend='mpi' needs mpirun, but Ray starts the workers: choose 'mccl' (CPU) or 'hccl' (Ascend)."
            )

    @property
    def backend_cls(self) -> type[Backend]:
        """What Ray starts the workers with."""
        return MindNLPBackend

    @property
    def train_func_context(self):
        """What Ray calls the training function in."""
        return worker.around_training

    def to_dict(self) -> dict[str, Any]:
        """What Ray shows of it."""
        return {"backend": self.settings.backend, "timeout_s": self.settings.timeout}


class MindNLPBackend(Backend):
    """Lets the workers of a group join. Ray has one in each process, and one controller in each."""

    def __init__(self):
        self._num_starts = 0

    def on_start(self, worker_group, backend_config: MindNLPConfig) -> None:
        """Let the workers join; they do so in their main threads, where signals can be heard.

        Raises:
            ray.exceptions.RayTaskError: What one of them raises, with its rank; Ray then ends the others.
        """
        address, port = worker_group.execute_single(0, worker.address_and_port)
        joining = worker_group.execute_async(
            worker.join,
            address=address,
            port=port,
            restart=self._num_starts,
            job=backend_config.job,
            settings=backend_config.settings,
        )
        self._num_starts += 1
        ray.get(joining)
