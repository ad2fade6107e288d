"""Loaders that a script gives in place of the Trainer's: shared out over the ranks, as the Trainer's own are."""

from accelerate.data_loader import DataLoaderDispatcher, DataLoaderShard
from mindtorch.utils.data import BatchSampler, DataLoader
from transformers import Trainer

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.trainers.transformers.order import require_undivided, same_on_ranks


def shared_out(loader: DataLoader, trainer: Trainer, collective: Collective) -> DataLoader:
    """A loader that gives this rank its part. All ranks must call it.

    Args:
        loader: Of ``get_train_dataloader``, ``get_eval_dataloader`` or ``get_test_dataloader``.
        trainer: Theirs.
        collective: The ranks.

    Raises:
        DataParallelError: If its rows cannot be shared out.
    """
    if isinstance(loader, (DataLoaderShard, DataLoaderDispatcher)):
        shard = loader.batch_sampler
        require_undivided(getattr(getattr(shard, "batch_sampler", shard), "sampler", None))
        return loader
    batches = getattr(loader, "batch_sampler", None)
    if type(batches) is not BatchSampler:
        raise DataParallelError(
            "{trainer} reads rows from a {loader} of its own: each rank would read all of them. Return a DataLoader "
            "with batch_size and sampler or shuffle, or share it out: self.accelerator.prepare(loader).",
            trainer=type(trainer).__name__,
            loader=type(loader).__name__,
        )
    batches.sampler = same_on_ranks(batches.sampler, trainer.args.data_seed or trainer.args.seed, collective)
    return trainer.accelerator.prepare(loader)


def require_batch_size(loader: DataLoader, trainer: Trainer) -> None:
    """Raise a DataParallelError unless a loader to train from makes batches of the size that the Trainer counts on."""
    wanted = trainer.args.per_device_train_batch_size
    found = getattr(loader.batch_sampler, "batch_size", None)
    if found != wanted:
        raise DataParallelError(
            "The loader of get_train_dataloader has batch_size={found}, and per_device_train_batch_size is {wanted}: "
            "make them equal, so that ranks weigh what they read.",
            found=found,
            wanted=wanted,
        )
