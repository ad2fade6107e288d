"""The large files of a checkpoint, written later from the values of now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import mindspore
import safetensors.numpy
from mindnlp.engine.trainer import base
from mindnlp.transformers import modeling_utils

from mindnlp_dp_plugin.checkpoint import archive
from mindnlp_dp_plugin.nested import map_leaves
from mindnlp_dp_plugin.patching import Patches


@contextmanager
def large_files_deferred() -> Iterator[list[Callable[[], None]]]:
    """Within the block MindNLP's functions that write tensors leave a function that does it.

    These functions call nothing of MindSpore's: tensors are turned into arrays in the block, which share their memory
    on CPU.
    """
    writes = []

    def safe_save_file(tensors, filename, metadata=None):
        arrays = {name: tensor.asnumpy() for name, tensor in tensors.items()}
        writes.append(partial(safetensors.numpy.save_file, arrays, filename, metadata))

    def save(state, file):
        reduced = {}

        def note(leaf):
            if isinstance(leaf, mindspore.Tensor):
                reduced[id(leaf)] = leaf.__reduce_ex__(archive.PROTOCOL)

        map_leaves(note, state)
        writes.append(partial(archive.write, state, file, lambda obj: reduced.get(id(obj), NotImplemented)))

    with Patches() as patches:
        for module in (base, modeling_utils):
            patches.replace(module, "safe_save_file", safe_save_file)
        patches.replace(base, "save", save)
        yield writes
