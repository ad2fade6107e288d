"""Which process writes checkpoints to a folder: two jobs in one folder would remove each other's."""

import json
import os
import socket
from datetime import datetime
from pathlib import Path

import psutil

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

RECORD = "owner.json"
CLOCK_S = 5  # a clock that is set moves the times at which processes began


def claim(folder: Path) -> str | None:
    """Note in ``folder`` that this process writes there.

    Returns:
        Who claims it, if that is a process on another node, of which nobody here knows whether it still runs.

    Raises:
        DataParallelError: If it is another process of this node, and runs.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _read(folder)
    if is_anothers(folder):
        raise DataParallelError(
            "output_dir={folder!r}: process {pid} of this machine, running since {since:%Y-%m-%d %H:%M}, writes its "
            "checkpoints there. Give each job an output_dir of its own, or end the other one first.",
            folder=str(folder.parent),
            pid=found["pid"],
            since=datetime.fromtimestamp(found["since"]),
        )
    written = folder / f"{RECORD}.{os.getpid()}"
    mine = {"node": socket.gethostname(), "pid": os.getpid(), "since": psutil.Process().create_time()}
    written.write_text(json.dumps(mine), encoding="utf-8")
    written.rename(folder / RECORD)
    if found and found["node"] != socket.gethostname():
        return tr("process {pid} on {node}", pid=found["pid"], node=found["node"])
    return None


def is_mine(folder: Path) -> bool:
    """Whether this process has claimed ``folder``."""
    found = _read(folder)
    return found is not None and found["pid"] == os.getpid() and _runs_here(found)


def is_anothers(folder: Path) -> bool:
    """Whether another process of this node, which still runs, has claimed ``folder``."""
    found = _read(folder)
    return found is not None and found["pid"] != os.getpid() and _runs_here(found)


def _read(folder):
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {"node": str(record["node"]), "pid": int(record["pid"]), "since": float(record["since"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _runs_here(record):
    """Whether the process runs on this node, and is not another that has got its number."""
    try:
        process = psutil.Process(record["pid"])
        since, is_dead = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    return record["node"] == socket.gethostname() and not is_dead and abs(since - record["since"]) < CLOCK_S
