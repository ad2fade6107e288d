"""A checkpoint by MindNLP's own ``_save_checkpoint``; parameters that are shared out, saved and loaded one by one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain

import mindspore
import numpy as np
from mindnlp.core.serialization import safe_save_file
from mindnlp.engine.trainer import base
from mindnlp.peft import PeftModel, PeftType, get_peft_model_state_dict
from mindnlp.peft.utils.save_and_load import get_data_list
from mindnlp.transformers import modeling_utils

from mindnlp_dp_plugin.checkpoint import archive, safe_unpickler, tensor_file
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.ddp.bucket import numpy_dtype
from mindnlp_dp_plugin.fully_sharded import Leading, shared_parameters
from mindnlp_dp_plugin.optim.gathering import LazyTensor, StoredTensor
from mindnlp_dp_plugin.optim.sharded import states_later
from mindnlp_dp_plugin.patching import Patches, replaced


def write_checkpoint(trainer, save: Callable[[], None], session) -> None:
    """Write a checkpoint of now, and remove old ones. All ranks must call it.

    Args:
        trainer: The Trainer that trains.
        save: MindNLP's own ``_save_checkpoint``.
        session: Its session.
    """
    output_dir, is_async = trainer._get_output_dir(), trainer.data_parallel_config.async_save

    def save_to(written, target):
        with ExitStack() as stack:
            if not is_async:
                stack.enter_context(replaced(base, "save", _save))
                stack.enter_context(states_later(trainer.optimizer))
            save()
        if trainer.state.best_model_checkpoint == str(written):
            trainer.state.best_model_checkpoint = str(target)

    def remove_old():
        trainer._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

    session.write_checkpoint(output_dir, save_to, session.progress.checkpoint_record().as_json(), remove_old)


@contextmanager
def saved_one_by_one(trainer) -> Iterator[None]:
    """A context in which ranks that save write parameters as they come. All ranks must enter it."""
    shared = shared_parameters(trainer.model)
    if shared is None:
        yield
        return
    with shared.led(trainer.args.should_save) as leading, Patches() as patches:
        if leading and _writes_by_stock(trainer):
            for module in (base, modeling_utils):
                patches.replace(module, "safe_save_file", partial(_write_one_by_one, leading))
        elif leading:
            adapters = _adapters(trainer.model) if isinstance(trainer.model, PeftModel) else None
            leading.hand_out(adapters.values() if adapters else trainer.model.parameters())
        yield


@contextmanager
def loaded_one_by_one(model, zero_stage: int) -> Iterator[bool]:
    """A context in which rank 0 reads parameters that are shared out, and each rank keeps its part of them.

    All ranks must enter it. Yields whether this rank is to read; each does what is not shared out.
    """
    shared = shared_parameters(model)
    with shared.led(current().rank == 0) if shared else nullcontext() as leading, Patches() as patches:
        reads = leading is not None or not shared
        if reads and zero_stage == 3:
            patches.replace(base, "safe_load_file", partial(tensor_file.read, later=_stored))
            for tensor in (*model.parameters(), *model.buffers()):
                patches.replace(tensor, "assign_value", partial(_assign, leading, tensor, tensor.assign_value))
                patches.replace(tensor, "copy", lambda tensor=tensor: tensor)  # of what it was given
        yield reads


def states_read_later(zero_stage: int) -> AbstractContextManager[None]:
    """A context in which the Trainer reads of an optimizer's states where they are, if a rank keeps a part of them."""
    reads_later = partial(safe_unpickler.load_later, later=StoredTensor)
    return replaced(base, "load", reads_later) if zero_stage else nullcontext()


def _stored(path, place, name, shape):
    return StoredTensor(path, place, numpy_dtype(name), shape)


def _assign(leading, tensor, stock, values):
    if values is tensor:
        return
    is_led, is_stored = leading is not None and leading.holds(tensor), type(values) is StoredTensor
    if is_led and is_stored:  # a few MB at a time
        leading.change(tensor, values.to(tensor.dtype).run)
    elif is_led:
        flat = values.astype(tensor.dtype).asnumpy().reshape(-1)
        leading.change(tensor, lambda begin, end: flat[begin:end].copy())
    else:
        stock(mindspore.Tensor.from_numpy(values.run(0, tensor.size).reshape(tensor.shape)) if is_stored else values)


def _writes_by_stock(trainer):
    """Whether the whole model goes into a file of safetensors by MindNLP's own code, while ranks wait."""
    model = trainer.model
    is_own = isinstance(model, PeftModel) or (
        isinstance(model, modeling_utils.PreTrainedModel)
        and type(model).save_pretrained is not modeling_utils.PreTrainedModel.save_pretrained
    )
    is_overridden = getattr(trainer._save, "__func__", None) is not base.Trainer._save
    return trainer.args.save_safetensors and not is_own and not is_overridden and base.safe_save_file is safe_save_file


def save_adapters(model: PeftModel, folder: str) -> None:
    """What ``save_pretrained`` writes; the model that is adapted is read only if adapters are computed from it."""
    adapters = _adapters(model)
    model.save_pretrained(folder, state_dict=get_data_list(adapters) if adapters else None)


def _adapters(model):
    """The parameters that are saved of a model with adapters, by name; None if these are computed."""
    configs = model.peft_config.values()
    if any(config.is_prompt_learning or config.peft_type == PeftType.ADALORA for config in configs):
        return None
    parameters = model.parameters_dict()
    names = {name: name for name in parameters}
    found = [get_peft_model_state_dict(model, names, adapter).values() for adapter in model.peft_config]
    return {name: parameters[name] for name in chain(*found)}


def _write_one_by_one(leading: Leading, tensors, filename, metadata=None):
    dtypes = {name: np.dtype(mindspore.dtype_to_nptype(tensor.dtype)) for name, tensor in tensors.items()}
    shapes = {name: (dtypes[name], tensor.shape) for name, tensor in tensors.items()}

    def values_of(name):
        tensor = tensors[name]
        return leading.blocks(tensor) if leading.holds(tensor) else [tensor.asnumpy()]

    tensor_file.write(filename, shapes, values_of, metadata)


def _save(state, file):
    def reduce(obj):
        return obj.gather().__reduce_ex__(archive.PROTOCOL) if type(obj) is LazyTensor else NotImplemented

    archive.write(state, file, reduce)
