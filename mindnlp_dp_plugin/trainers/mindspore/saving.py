"""``mindspore.save_checkpoint`` and ``ModelCheckpoint`` on ranks that all save into one file, as scripts for one do."""

import os
from types import ModuleType

from mindnlp_dp_plugin.patching import Patches


def apart_from_other_ranks(serialization: ModuleType, rank: int, patches: Patches) -> None:
    """Let each rank write a file of its own, and put it in the place of the one that was asked for.

    MindSpore writes into a file that is the same for all ranks, and the first to rename it lets the others fail.

    Args:
        serialization: ``mindspore.train.serialization``.
        rank: This rank.
        patches: Restores MindSpore.
    """

    def _exec_save(stock, ckpt_file_name, *args, **kwargs):
        stem, suffix = os.path.splitext(ckpt_file_name)
        own = f"{stem}.rank_{rank}{suffix}"
        stock(own, *args, **kwargs)
        os.replace(own, ckpt_file_name)

    patches.stand_in(serialization, _exec_save)
