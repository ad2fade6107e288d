"""Checkpoints by the Trainer's own ``_save_checkpoint``: whole or not at all, and the same for all ranks."""

import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

from transformers import trainer as trainer_module
from transformers.trainer_utils import get_last_checkpoint

from mindnlp_dp_plugin.checkpoint import elsewhere, store
from mindnlp_dp_plugin.collectives import Collective, current, require_same
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import temporary_folder, told
from mindnlp_dp_plugin.job.variables import JOB, RESTART
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.patching import Patches

logger = logging.getLogger(__name__)

RANDOM_STATES, WRITTEN = Message("random states"), Message("a checkpoint that was written")
HINT = Message("All ranks must read the same checkpoint: copy the folder to each node, or write to one that all share.")

_calls = Counter()  # of train(), by output_dir: a script may train more than once with one


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
    output_dir, restart = trainer.args.output_dir, int(told(RESTART) or 0)
    _calls[output_dir] += 1
    if trainer.args.should_save:
        os.makedirs(output_dir, exist_ok=True)
        store.open_workspace(output_dir)
    collective.barrier()
    kept, is_resuming = elsewhere.bring_back(output_dir), trainer.data_parallel_config.resume
    whole = _own_checkpoint(output_dir, restart, kept, collective) if restart or is_resuming else None
    if whole and (restart or wanted is True or not wanted):
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


def _own_checkpoint(output_dir, restart, kept, collective):
    """The newest whole one of this call of ``train()``; after a restart, of this job."""
    why = tr("Restart {number}", number=restart) if restart else "--resume"
    this_call = _calls[output_dir]
    for folder, content in store.published_in(output_dir):
        if kept and store.step_of(folder) > store.step_of(kept):
            continue  # it may be on one node alone
        is_of_job = content and content.get("job") == told(JOB)
        if content and (content.get("train_call", this_call) != this_call or restart and not is_of_job):
            continue
        if problem := store.problem_of_files(folder):
            _tell(tr("{why}: passed over {problem}", why=why, problem=f"{folder}: {problem}"), collective)
            continue
        _tell(tr("{why}: training continues from {checkpoint}", why=why, checkpoint=folder), collective)
        return str(folder)
    _tell(tr("{why}: training continues from the start", why=why), collective)
    return None


def _tell(words, collective):
    if collective.rank == 0:
        logger.warning(words)


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
    origin = {"job": told(JOB), "train_call": _calls[trainer.args.output_dir]}
    return {**_settings(trainer, group), **position, **origin}


def _rotate(trainer, output_dir):
    patches = Patches()
    removing = SimpleNamespace(rmtree=store.remove, copy=trainer_module.shutil.copy)
    patches.replace(trainer_module, "shutil", removing)
    try:
        trainer._rotate_checkpoints(use_mtime=True, output_dir=output_dir)
    finally:
        patches.undo()
