"""What all ranks go on from, on shared or separate disks of nodes, and that no two of them write to one folder."""

import hashlib
import json
import logging
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import elsewhere, store
from mindnlp_dp_plugin.checkpoint.store import Judge
from mindnlp_dp_plugin.checkpoint.training import Training, own_checkpoint
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
CHECKPOINT = Message("the checkpoint to resume from")
FOLDERS = Message("folders of checkpoints")
# Each node has written its own, at another time, and may have been lost before it noted what became of the training.
OF_A_NODE = ("job", "files", "digests", "followed_by", "has_ended")


def require_own_folders(output_dir: str, writes: bool, collective: Collective) -> None:
    """Raise if two ranks would write checkpoints to the same folder. All ranks must call it.

    Args:
        output_dir: This rank's ``output_dir``.
        writes: Whether this rank writes there.
        collective: The ranks that train together.

    Raises:
        DataParallelError: If two ranks would.
    """
    mark = store.workspace(output_dir) / uuid.uuid4().hex
    if writes:
        mark.mkdir(mode=store.PRIVATE, parents=True)
    marks = collective.all_gather_object(mark.name, FOLDERS)
    seen = [name for name in marks if writes and (store.workspace(output_dir) / name).exists()]
    num_seen = collective.all_gather_object(len(seen), FOLDERS)
    if writes:
        with suppress(FileNotFoundError):  # another node has closed the workspace that they share
            mark.rmdir()
        store.close_workspace(output_dir)
    if max(num_seen) > 1:
        raise DataParallelError(
            "save_on_each_node=True, but several nodes would write to the same output_dir, {output_dir!r}: it is for "
            "nodes with separate disks. Leave it out; rank 0 then writes for all.",
            output_dir=output_dir,
        )


def open_workspaces(output_dir: str, writes: bool, collective: Collective) -> None:
    """Claim the folders of checkpoints, and put in order what a killed job left. All ranks must call it.

    Args:
        output_dir: This rank's ``output_dir``.
        writes: Whether this rank writes there.
        collective: The ranks that train together.

    Raises:
        DataParallelError: On all ranks, if another job of this node writes checkpoints to one of them.
    """
    problem = stranger = None
    if writes:
        try:
            stranger = store.open_workspace(output_dir)
        except DataParallelError as error:
            problem = str(error)
    if stranger:
        logger.warning(
            tr(
                "output_dir={folder!r} is claimed by {stranger}. If that job still runs, end it, or give each an "
                "output_dir of its own: two jobs in one folder remove each other's checkpoints.",
                folder=output_dir,
                stranger=stranger,
            )
        )
    if problem := next(filter(None, collective.all_gather_object(problem, FOLDERS)), None):
        raise DataParallelError(problem)


def agreed_checkpoint(
    training: Training,
    wanted: str | os.PathLike | bool | None,
    is_resuming: bool,
    collective: Collective,
    judge: Judge,
) -> tuple[str | None, bool]:
    """The whole checkpoint from which all ranks go on. All ranks must call it.

    After a restart and with ``--resume`` it is this training's newest, else what the script wants. Its files are read
    by one rank for all that see the same ones. It is long because it names each way in which ranks can differ.

    Args:
        training: The one that begins.
        wanted: The script's ``resume_from_checkpoint``: a folder; True for the newest in ``output_dir``; None or False
            to train from the start.
        is_resuming: Whether it is to go on, though nothing was started again.
        collective: The ranks that train together; each node may have its own disk.
        judge: What is wrong with a checkpoint of this Trainer.

    Returns:
        The folder, or None; and whether training goes on by itself, whatever the script wants.

    Raises:
        DataParallelError: The checkpoint is damaged, there is none, or not all ranks have the same.
    """
    kept = elsewhere.bring_back(training.output_dir)
    own = own_checkpoint(training, wanted, is_resuming, collective, judge, kept)
    if own is None and wanted is True and is_resuming and not training.before:
        return None, False  # the first run has none yet
    folder = own or local_checkpoint(wanted, training.output_dir)
    seen = collective.all_gather_object(_files_as_seen(folder), CHECKPOINT)
    if wanted is True and not own and not any(seen):
        if is_resuming:
            return None, False
        raise DataParallelError(
            "resume_from_checkpoint=True: {folder!r} holds no checkpoint. Leave the argument out to train from the "
            "start.",
            folder=training.output_dir,
        )
    reader = seen.index(seen[collective.rank])  # the first rank that sees these files
    is_read = own is not None and collective.rank == 0
    look = _look_over(folder, training.output_dir, judge, is_read) if reader == collective.rank else None
    looks = collective.all_gather_object(look, CHECKPOINT)
    for rank, other in enumerate(looks):
        if other and other.identity != looks[0].identity:
            _require_same_home(looks[0], rank, other)
            raise DataParallelError(
                "Cannot resume: rank 0 on {first_host} has {first}, rank {rank} on {host} has {theirs}. All nodes need "
                "the same checkpoint: copy it to each, write to a folder that all share, or train with "
                "save_on_each_node=True.",
                first_host=looks[0].host,
                first=looks[0].shown,
                rank=rank,
                host=other.host,
                theirs=other.shown,
            )
    if looks[reader].refusal:
        raise DataParallelError(looks[reader].refusal)
    return folder, own is not None


def local_checkpoint(wanted: str | os.PathLike | bool | None, output_dir: str) -> str | None:
    """The folder that ``resume_from_checkpoint`` means on this node, as ``agreed_checkpoint`` takes it."""
    if wanted is True:
        return next(map(str, store.newest_first(output_dir)), None)
    return os.fspath(wanted) if wanted else None


def _files_as_seen(folder):
    """What tells these files from a copy of them: equal on all ranks that see the very same ones."""
    if folder is None:
        return None
    files = [(path.name, path.stat()) for path in sorted(Path(folder).rglob("*"))]
    numbers = [(name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in files]
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


@dataclass(frozen=True)
class _Look:
    """What a rank has found on its node.

    Attributes:
        identity: What is the same for copies of a checkpoint on other nodes, and for no other checkpoint.
        shown: How it is shown.
        refusal: Why it cannot be resumed from.
        output_dir: Its ``output_dir``.
        host: The node.
    """

    identity: tuple
    shown: str
    output_dir: str
    refusal: str | None = None
    host: str = field(default_factory=socket.gethostname)


def _require_same_home(first, rank, other):
    if first.output_dir != other.output_dir:
        raise DataParallelError(
            "Cannot resume: rank 0 on {first_host} has {first}, rank {rank} on {host} has {theirs}. The ranks have "
            "different output_dir, {first_output_dir!r} and {output_dir!r}: give all the same one, without the time "
            "or the rank in its name.",
            first_host=first.host,
            first=first.shown,
            first_output_dir=first.output_dir,
            rank=rank,
            host=other.host,
            theirs=other.shown,
            output_dir=other.output_dir,
        )


def _look_over(folder, output_dir, judge, is_read):
    output_dir = os.path.abspath(output_dir)
    if folder is None:
        return _Look((), tr("no checkpoint"), output_dir)
    name = Path(folder).name
    if not is_read and (problem := judge(Path(folder))):
        return _Look((name,), f"{name} ({problem})", output_dir, str(store.refusal(folder, problem, judge)))
    content = store.read_published(folder) or {}
    content = {key: value for key, value in content.items() if key not in OF_A_NODE}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return _Look((name, digest), tr("{name} (digest {digest})", name=name, digest=digest), output_dir)
