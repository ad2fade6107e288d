"""The large files of a checkpoint, written later from the values of now."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import mindtorch
import safetensors.numpy
import safetensors.torch
from mindtorch import serialization
from transformers import modeling_utils
from transformers.trainer import OPTIMIZER_NAME

from mindnlp_dp_plugin.patching import Patches


@contextmanager
def large_files_deferred() -> Iterator[list[Callable[[], None]]]:
    """Within the block safetensors and the optimizer's file are not written, but leave a function that does it.

    These functions call nothing of MindSpore's: tensors are turned into arrays in the block, which share their memory
    on CPU.
    """
    writes = []

    def save_file(tensors, filename, metadata=None):
        arrays = {name: tensor.asnumpy() for name, tensor in tensors.items()}
        writes.append(partial(safetensors.numpy.save_file, arrays, filename, metadata))

    def _open_zipfile_writer(stock, file):
        if os.path.basename(file) != OPTIMIZER_NAME:
            return stock(file)
        later = _Later()
        writes.append(partial(later.write, partial(stock, file)))
        return later

    def _save(stock, state, archive, *args, **kwargs):
        with Patches() as as_they_are:
            if isinstance(archive, _Later):
                as_they_are.replace(mindtorch.Tensor, "get_bytes", lambda tensor: tensor.asnumpy().data.cast("B"))
            stock(state, archive, *args, **kwargs)

    with Patches() as patches:
        patches.replace(modeling_utils, "safe_save_file", save_file)
        patches.replace(safetensors.torch, "save_file", save_file)
        patches.stand_in(serialization, _open_zipfile_writer)
        patches.stand_in(serialization, _save)
        yield writes


class _Later:
    """An archive of ``torch.save`` that keeps what is written to it."""

    def __init__(self):
        self._records = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def write_record(self, *record):
        self._records.append(record)

    def write(self, opened):
        with opened() as archive:
            for record in self._records:
                archive.write_record(*record)
