"""The door for Hugging Face's Trainer over MindNLP 0.5: ``import mindnlp; from transformers import Trainer``."""

import functools
import os
import random
from collections.abc import Callable

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.transformers.refusals import require_served

__all__ = ["install"]

LOCAL_RANK = "LOCAL_RANK"
STATES = Message("random states")


def install(group: Collective, config: DataParallelConfig, when_imported: Callable, patches: Patches) -> None:
    """Let the Trainer train data-parallel. In one process that no launcher has started nothing is changed.

    Args:
        group: The ranks that train together.
        config: The settings.
        when_imported: Calls a function with a module when that is imported.
        patches: Restores torch's functions and the Trainer.

    Raises:
        DataParallelError: If a setting is not served here.
    """
    require_served(config)
    if group.world_size == 1 and LOCAL_RANK not in os.environ:  # with it, accelerate wants torch.distributed
        return
    from mindnlp_dp_plugin.trainers.transformers.torch_distributed import answers_of, tell_accelerate  # has MindSpore

    tell_accelerate(group)
    begin_alike(group)
    when_imported("mindtorch.distributed", lambda module: answers_of(group).answer(module, patches))
    # At the end of MindNLP's import, which puts a training_step of its own into the Trainer.
    when_imported("mindnlp", lambda _: _hook(config, patches))


@functools.cache
def begin_alike(group: Collective) -> None:
    """Let Python's and NumPy's generators begin as on rank 0: a script may split or shuffle rows without a seed.

    Once, before the script draws.

    Args:
        group: The ranks.
    """
    import numpy as np  # not above: a rank is pinned before NumPy is loaded

    of_python, of_numpy = group.all_gather_object((random.getstate(), np.random.get_state()), STATES)[0]
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def _hook(config, patches):
    from mindnlp_dp_plugin.trainers.transformers.overrides import hook_trainer

    hook_trainer(config, patches)
