"""The state of a loop of one's own on disk: whole or absent, and going on from it is exact."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore

from mindnlp_dp_plugin.checkpoint import archive, safe_unpickler, store
from mindnlp_dp_plugin.checkpoint.record import differences
from mindnlp_dp_plugin.checkpoint.writer import Writer
from mindnlp_dp_plugin.collectives import current, require_same
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.loading import count_steps_in_whole_numbers
from mindnlp_dp_plugin.step import rng
from mindnlp_dp_plugin.trainers.loop.prepare import latest_loop

STATE = "state.ckpt"
HINT = Message("All ranks must read the same state: copy the folder to each node, or write to one that all share.")


@dataclass(frozen=True)
class LoopState:
    """Where a loop goes on.

    Attributes:
        epoch: The epoch; the rows' next iterator begins where it was left.
        num_batches: Batches of it that each rank has read.
        num_steps: Optimizer steps made.
    """

    epoch: int
    num_batches: int
    num_steps: int


def save_state(folder: str | Path) -> None:
    """Save model, optimizer, scheduler, position and random states of a prepared loop. All ranks must call it.

    Rank 0 writes the folder, whole or not at all; what stood there is replaced when the new one is whole. If
    ``dp.should_stop`` has said True, the job then ends with the status of the signal. It is long because it lists all
    that a state holds.

    Args:
        folder: Where to.

    Raises:
        DataParallelError: If gradients wait for their optimizer step, or ranks hold different parameters.

    Examples:
        >>> if step % 50 == 0 or dp.should_stop():
        ...     dp.save_state("state")
    """
    loop, group, folder = latest_loop(), current(), Path(folder)
    door, step = loop.door, loop.step
    waiting = [parameter for parameter in step.stepped.named.values() if parameter.grad is not None]
    if waiting and not door.clock.begins_optimizer_step:
        raise DataParallelError(
            "dp.save_state between gradients and their optimizer step: gradients are not saved. Call it after "
            "optimizer.step(), or drop them by optimizer.zero_grad()."
        )
    step.check_replicas(anew=True)
    contents = {
        "model": {name: mindspore.Tensor(tensor) for name, tensor in door.model.state_dict().items()},
        "optimizer": door.optimizer.state_dict(),
        "scheduler": loop.scheduler.state_dict() if loop.scheduler else None,
    }
    record = {
        "epoch": loop.rows.epoch if loop.rows is not None else 0,
        "num_batches": loop.rows.num_read if loop.rows is not None else 0,
        "num_steps": door.num_steps,
        "micro_steps": door.clock.micro_steps,
        "world_size": group.world_size,
        "batch_size": loop.rows.get_batch_size() if loop.rows is not None else None,
        "seed": door.seed,
        "loss_scaling": step.precision.scaler and vars(step.precision.scaler),
        "host_random": group.all_gather_object(rng.host_state(), Message("random states")),
    }

    def save_to(written):
        written.mkdir()
        archive.write(contents, str(written / STATE))
        (written / store.STATE).write_text("{}")

    writes = group.rank == 0
    if writes:
        folder.parent.mkdir(parents=True, exist_ok=True)
    Writer().write(folder, writes, save_to if writes else lambda written: None, record)
    if writes:
        store.close_workspace(folder.parent)
    group.barrier()
    if door.preemption and door.preemption.agreed is not None:
        door.preemption.stop(door.num_steps, str(folder))


def load_state(folder: str | Path) -> LoopState:
    """Go on from what ``save_state`` has written: exact to the last bit, in the middle of an epoch too.

    All ranks must call it, after ``dp.prepare``.

    Args:
        folder: Where from.

    Returns:
        Where the loop goes on: ``for epoch in range(state.epoch, num_epochs)``.

    Raises:
        DataParallelError: If it is damaged, ranks read different ones, or it stands in the middle of an epoch whose
            rows these ranks would read in another order.

    Examples:
        >>> first_epoch = dp.load_state("state").epoch if Path("state").exists() else 0
    """
    loop, group = latest_loop(), current()
    door, record = loop.door, store.read_whole(folder)
    require_same("dp.load_state", record["digests"], group, HINT, str(folder))
    num_batches = _batches_read(folder, record, loop, group)
    contents = safe_unpickler.load(str(Path(folder, STATE)))
    _load_model(door.model, contents["model"], folder)
    door.optimizer.load_state_dict(contents["optimizer"])
    count_steps_in_whole_numbers(door.optimizer)
    if loop.scheduler:
        loop.scheduler.load_state_dict(contents["scheduler"])
    if loop.rows is not None:
        loop.rows.start_at(record["epoch"], num_batches)
    door.num_steps, door.clock.micro_steps, door.seed = record["num_steps"], record["micro_steps"], record["seed"]
    if loop.step.precision.scaler and record["loss_scaling"]:
        vars(loop.step.precision.scaler).update(record["loss_scaling"])
    if record["world_size"] == group.world_size:
        rng.restore_host_state(record["host_random"][group.rank])
    return LoopState(record["epoch"], num_batches, record["num_steps"])


def _batches_read(folder, record, loop, group):
    """How many of its batches this rank has read in the epoch, where other ranks may have read it."""
    if loop.rows is None or not record["num_batches"]:
        return 0
    now = {"world_size": group.world_size, "batch_size": loop.rows.get_batch_size(), "seed": loop.door.seed}
    num_rows = record["num_batches"] * record["batch_size"] * record["world_size"]
    num_batches, rest = divmod(num_rows, now["batch_size"] * now["world_size"])
    reads_on = loop.rows.reads_on(record["world_size"], record["batch_size"]) and record["seed"] == now["seed"]
    if rest or not reads_on:
        raise DataParallelError(
            "Cannot go on from {folder!r} with other settings: {differences}. It was saved in the middle of an epoch, "
            "and other rows would be left. Use the old ones, ranks and batches of the same global batch (a source that "
            "is read in order needs the old batch size), or a state that was saved at the end of an epoch.",
            folder=str(folder),
            differences=differences(record, now),
        )
    return num_batches


def _load_model(model, saved: dict[str, Any], folder):
    found = model.state_dict()
    if found.keys() != saved.keys():
        odd = sorted(found.keys() ^ saved.keys())
        raise DataParallelError(
            "Cannot go on from {folder!r}: it belongs to another model ({name} is in one of them only).",
            folder=str(folder),
            name=odd[0],
        )
    for name, tensor in found.items():
        tensor.assign_value(saved[name].astype(tensor.dtype))
