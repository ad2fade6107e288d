"""``DistributedDataParallel``, in which accelerate wraps the model: averaging is the step's, so it only holds it."""

from collections.abc import Iterator
from contextlib import contextmanager

from mindtorch import nn

from mindnlp_dp_plugin.step import rng


class DistributedDataParallel(nn.Module):
    """The model on this rank.

    Args:
        module: The model.
        **options: Torch's, for its own reducer.
    """

    def __init__(self, module: nn.Module, **options):
        super().__init__()
        self.module = module

    def __getattr__(self, name: str):
        """What the wrapper has not is the model's, as where one process trains it: ``model.bert(...)``."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, *args, **kwargs):
        """That of the model; what it draws from NumPy, as masks of spans, is the rank's own, as dropout."""
        with rng.numpy_of_micro_step():
            return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Whether gradients are averaged, the Trainer's accelerator says (``Clock``)."""
        yield
