"""Put the stand-ins into MindNLP's Trainer and TrainingArguments, and take them out again."""

import functools
from types import SimpleNamespace

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainer import checkpoints, grouping, plain_pickle
from mindnlp_dp_plugin.trainer.stand_ins import ARGUMENTS_METHODS, TRAINER_METHODS


def hook_trainer(trainer_base, group: Collective, config: DataParallelConfig, replacements: Replacements) -> None:
    """Let MindNLP's Trainer train data-parallel.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        group: The ranks that train together.
        config: The ``DataParallelConfig`` to train by.
        replacements: What takes the hooks out again.
    """
    trainer, arguments = trainer_base.Trainer, trainer_base.TrainingArguments
    replacements.replace(trainer, "data_parallel_config", config)
    for owner, methods in ((trainer, TRAINER_METHODS), (arguments, ARGUMENTS_METHODS)):
        for stand_in in methods:
            _stand_in_for(owner, stand_in, replacements)
    # All the module uses shutil for is to remove checkpoints.
    replacements.replace(trainer_base, "shutil", SimpleNamespace(rmtree=checkpoints.remove))
    replacements.replace(trainer_base, "load", plain_pickle.load)
    positions = {
        "world_size": group.world_size,
        "process_index": group.rank,
        "local_process_index": group.local_rank,
    }
    for name, position in positions.items():
        stock_docstring = getattr(arguments, name).__doc__
        answer = property(lambda self, position=position: position, doc=stock_docstring)
        replacements.replace(arguments, name, answer)


def hook_lone_trainer(trainer_base, replacements: Replacements) -> None:
    """Let MindNLP's Trainer group by length, if its arguments say so; all else is stock.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        replacements: What takes the hook out again.
    """
    _stand_in_for(trainer_base.Trainer, grouping._inner_training_loop, replacements)


def _stand_in_for(owner, stand_in, replacements):
    stock = getattr(owner, stand_in.__name__)

    @functools.wraps(stock)
    def method(self, *args, **kwargs):
        return stand_in(stock, self, *args, **kwargs)

    replacements.replace(owner, stand_in.__name__, method)
