"""Checkpoints by the Trainer's own ``_save_checkpoint``: whole or not at all, and the same for all ranks."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import mindtorch
import numpy as np
import xxhash
from transformers import trainer as trainer_module
from transformers.trainer_utils import get_last_checkpoint

from mindnlp_dp_plugin.checkpoint import elsewhere, store
from mindnlp_dp_plugin.checkpoint.agreement import own_checkpoint
from mindnlp_dp_plugin.checkpoint.training import begin_training, digest_of_rows
from mindnlp_dp_plugin.collectives import Collective, current, require_same
from mindnlp_dp_plugin.ddp.replicas import digests_of_trained
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import temporary_folder
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.nested import map_leaves
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step import rng

RANDOM_STATES, WRITTEN = Message("random states"), Message("a checkpoint that was written")
HINT = Message("All ranks must read the same checkpoint: copy the folder to each node, or write to one that all share.")

READ, READINGS = 16, 2  # rows, spread over the data set, and how often: what is random differs


def write_checkpoint(trainer, save: Callable[[], None], output_dir: str, session) -> str:
    """Write a checkpoint of now. All ranks must call it.

    Args:
        trainer: The Trainer that trains.
        save: Its ``_save_checkpoint`` without the plugin.
        output_dir: The folder of checkpoints.
        session: Its session.

    Returns:
        The checkpoint's folder.
    """
    group, state, writes = current(), trainer.state, trainer.args.should_save
    name = f"checkpoint-{state.global_step}"
    with ExitStack() as stack:
        # What a rank writes beside the one that saves is its random state, which that one gets.
        scratch = Path(stack.enter_context(store.atomic_save(output_dir) if writes else temporary_folder()))
        patches = Patches()
        patches.replace(trainer, "_get_output_dir", lambda trial=None: str(scratch))
        patches.replace(trainer, "_rotate_checkpoints", lambda *args, **kwargs: None)
        try:
            save()
        finally:
            patches.undo()
        written = scratch / name
        mine = {path.name: path.read_bytes() for path in written.glob("rng_state*")}
        of_ranks = group.all_gather_object(mine, RANDOM_STATES)
        if state.best_global_step == state.global_step:
            state.best_model_checkpoint = os.path.join(output_dir, name)
        if writes:
            for file, content in (item for files in of_ranks for item in files.items()):
                (written / file).write_bytes(content)
            state.save_to_json(str(written / store.STATE))
            store.publish(written, output_dir, _record(trainer, session, group))
    if writes:
        _rotate(trainer, output_dir)
    group.all_gather_object(name, WRITTEN)
    return os.path.join(output_dir, name)


def agreed_checkpoint(trainer, wanted: str | bool | None, collective: Collective) -> str | None:
    """The whole checkpoint from which all ranks go on; None without one. All ranks must call it.

    Args:
        trainer: The Trainer.
        wanted: The script's ``resume_from_checkpoint``.
        collective: The ranks that train together.

    Raises:
        DataParallelError: If ranks want different ones, or it is not whole.
    """
    output_dir, is_resuming = trainer.args.output_dir, trainer.data_parallel_config.resume
    if trainer.args.should_save:
        os.makedirs(output_dir, exist_ok=True)
        store.open_workspace(output_dir)
    collective.barrier()
    weights = digests_of_trained(trainer.model) if collective.rank == 0 else []
    trainer.data_parallel_training = training = begin_training(trainer, weights, collective)
    kept, rows = elsewhere.bring_back(output_dir), partial(_digest_of_rows, trainer.train_dataset)
    whole = own_checkpoint(output_dir, training, wanted, is_resuming, collective, rows, kept=kept)
    if "train_dataset" not in training.trained:
        training.trained["train_dataset"] = rows()
    if whole:
        wanted = whole
    elif wanted is True and is_resuming:  # the first run has none yet
        wanted = None
    elif wanted is True:
        wanted = get_last_checkpoint(output_dir)
        if wanted is None:
            raise DataParallelError(
                "resume_from_checkpoint=True: {folder!r} holds no checkpoint. Leave it out to train from the start.",
                folder=output_dir,
            )
    wanted = str(wanted) if wanted else None
    require_same("resume_from_checkpoint", wanted, collective, HINT)
    if wanted and wanted != whole and os.path.exists(os.path.join(wanted, store.RECORD)):
        store.read_whole(wanted)
    collective.barrier()
    return wanted


def _digest_of_rows(dataset):
    """A digest of some of its rows; random generators are left as they were."""
    of_host, of_tensors = rng.host_state(), mindtorch.get_rng_state()
    places = sorted({round(place) for place in np.linspace(0, len(dataset) - 1, READ)}) if len(dataset) else []
    passes = [dict(chain.from_iterable(_values_of(dataset[place], place) for place in places)) for _ in range(READINGS)]
    rng.restore_host_state(of_host)
    mindtorch.set_rng_state(of_tensors)
    first, second = passes
    changing = {place[1] for place in first if second.get(place) != first[place]}
    return digest_of_rows((first, changing))


def _values_of(row, place):
    """A digest of each value of a row, by its place and its name."""
    named = row.items() if isinstance(row, Mapping) else {"": row}.items()
    for name, value in named:
        yield (place, str(name)), xxhash.xxh3_64_intdigest(repr(map_leaves(_plain, value)).encode())


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def read_record(folder: str | None, trainer, collective: Collective) -> dict:
    """What a checkpoint says beside what the Trainer reads; nothing, if one process has written it.

    Raises:
        DataParallelError: If other rows made a step when it was saved.
    """
    if not folder:
        return {}
    if not os.path.exists(os.path.join(folder, store.RECORD)):
        steps = trainer_module.TrainerState.load_from_json(os.path.join(folder, store.STATE)).global_step
        return {"micro_steps": steps * trainer.args.gradient_accumulation_steps}
    record = store.read_published(folder)  # agreed_checkpoint has read all of it
    now = _settings(trainer, collective)
    changed = [name for name, value in now.items() if record[name] != value]
    if changed:
        raise DataParallelError(
            "Cannot resume from {folder!r}: {names} changed ({before}, now {now}), and the rows that are left would be "
            "others. Take the old ones.",
            folder=folder,
            names=", ".join(changed),
            before=", ".join(str(record[name]) for name in changed),
            now=", ".join(str(now[name]) for name in changed),
        )
    return record


def _settings(trainer, collective):
    """What decides which rows make a step."""
    return {
        "world_size": collective.world_size,
        "per_device_train_batch_size": trainer.args.per_device_train_batch_size,
        "gradient_accumulation_steps": trainer.args.gradient_accumulation_steps,
        "seed": trainer.args.seed,
    }


def _record(trainer, session, group):
    position = {"micro_steps": session.clock.micro_steps, "gradient_order": session.step.reducer.order}
    return {**_settings(trainer, group), **position, **trainer.data_parallel_training.as_recorded()}


def _rotate(trainer, output_dir):
    patches = Patches()
    removing = SimpleNamespace(rmtree=store.remove, copy=trainer_module.shutil.copy)
    patches.replace(trainer_module, "shutil", removing)
    try:
        trainer._rotate_checkpoints(use_mtime=True, output_dir=output_dir)
    finally:
        patches.undo()
