"""Checkpoints by the Trainer's own ``_save_checkpoint``: whole or not at all, and the same for all ranks."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from transformers import trainer as trainer_module

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import differences
from mindnlp_dp_plugin.collectives import Collective, current
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import replaced
from mindnlp_dp_plugin.trainers import stops

RANDOM_STATES = Message("random states")


def write_checkpoint(trainer, save: Callable[[], None], output_dir: str, session) -> None:
    """Write a checkpoint of now. All ranks must call it.

    Args:
        trainer: The Trainer that trains.
        save: Its ``_save_checkpoint`` without the plugin.
        output_dir: The folder of checkpoints.
        session: Its session.
    """
    group, state = current(), trainer.state

    def save_to(written, target):
        with replaced(trainer, "_rotate_checkpoints", lambda *args, **kwargs: None):
            save()
        mine = {path.name: path.read_bytes() for path in written.glob("rng_state*")}  # each rank writes its own
        of_ranks = group.all_gather_object(mine, RANDOM_STATES)
        best = target.with_name(f"checkpoint-{state.best_global_step}")
        if best == target or best.is_dir():
            state.best_model_checkpoint = str(best)
        if trainer.args.should_save:
            for file, content in (item for files in of_ranks for item in files.items()):
                (written / file).write_bytes(content)

    record = _record(trainer, session, group)
    session.write_checkpoint(output_dir, save_to, record, lambda: _rotate(trainer, output_dir))


def problem_of(folder: Path) -> str | None:
    """What is wrong with a checkpoint; one that the Trainer has written in one process says nothing of that."""
    return store.problem_of_files(folder) if (folder / store.RECORD).exists() else None


def read_record(folder: str | None, trainer, collective: Collective) -> dict:
    """What a checkpoint says beside what the Trainer reads.

    Returns:
        Its record; and as ``stop`` how a callback has stopped the training, None if none has.

    Raises:
        DataParallelError: If other rows made a step when it was saved.
    """
    if not folder:
        return {}
    state = trainer_module.TrainerState.load_from_json(os.path.join(folder, store.STATE))
    settings = _settings(trainer, collective)
    if os.path.exists(os.path.join(folder, store.RECORD)):
        record = store.read_published(folder)  # agreed_checkpoint has read all of it
    else:  # the Trainer has written it in one process
        steps = state.global_step * trainer.args.gradient_accumulation_steps
        record = {**settings, "world_size": 1, "micro_steps": steps}
    if changed := differences(record, settings):
        raise DataParallelError(
            "Cannot resume from {folder!r} with other settings: {differences}. Other rows would be left: use the old "
            "settings.",
            folder=folder,
            differences=changed,
        )
    return {**record, "stop": stops.stop_of(folder, record, state.global_step)}


def _settings(trainer, collective):
    """What decides which rows make a step."""
    return {
        "world_size": collective.world_size,
        "per_device_train_batch_size": trainer.args.per_device_train_batch_size,
        "gradient_accumulation_steps": trainer.args.gradient_accumulation_steps,
        "seed": trainer.args.seed,
    }


def _record(trainer, session, group):
    training = {**trainer.data_parallel_training.as_recorded(), **stops.as_recorded(trainer)}
    return {**_settings(trainer, group), "micro_steps": session.clock.micro_steps, **training}


def _rotate(trainer, output_dir):
    removing = SimpleNamespace(rmtree=store.remove, copy=trainer_module.shutil.copy)
    with replaced(trainer_module, "shutil", removing):
        trainer._rotate_checkpoints(use_mtime=True, output_dir=output_dir)
