"""Install the overrides in MindNLP's Trainer and TrainingArguments, and remove them."""

from types import SimpleNamespace

from mindspore.dataset import Dataset

from mindnlp_dp_plugin.checkpoint import safe_unpickler, store
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data.dispatched import is_read_once
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.mindnlp.overrides import ARGUMENTS_METHODS, TRAINER_METHODS


def has_length(stock, dataset) -> bool:
    """Whether a data set has a length. Where rank 0 deals out batches, no rank reads a pipeline to find out."""
    return not is_read_once(dataset) if isinstance(dataset, Dataset) else stock(dataset)


def hook_trainer(trainer_base, group: Collective, config: DataParallelConfig, patches: Patches) -> None:
    """Let MindNLP's Trainer train data-parallel.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        group: The ranks that train together.
        config: The ``DataParallelConfig`` to train by.
        patches: Restores the Trainer.
    """
    trainer, arguments = trainer_base.Trainer, trainer_base.TrainingArguments
    patches.replace(trainer, "data_parallel_config", config)
    patches.replace(trainer, "data_parallel_session", None)
    for owner, methods in ((trainer, TRAINER_METHODS), (arguments, ARGUMENTS_METHODS)):
        for stand_in in methods:
            patches.stand_in(owner, stand_in)
    if config.dispatch_batches:
        patches.stand_in(trainer_base, has_length)
    # The module uses shutil only to remove checkpoints.
    patches.replace(trainer_base, "shutil", SimpleNamespace(rmtree=store.remove))
    patches.replace(trainer_base, "load", safe_unpickler.load)
    positions = {
        "world_size": group.world_size,
        "process_index": group.rank,
        "local_process_index": group.local_rank,
    }
    for name, position in positions.items():
        stock_docstring = getattr(arguments, name).__doc__
        answer = property(lambda self, position=position: position, doc=stock_docstring)
        patches.replace(arguments, name, answer)
