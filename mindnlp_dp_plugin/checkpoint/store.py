"""Checkpoint folders: written whole or not at all, and looked over before they are read.

A checkpoint is written under ``incomplete-...`` beside its final name, brought to the disk, then renamed; it leaves by
the same way. So whatever is called ``checkpoint-N`` is whole, whenever the job was killed. One that another of the same
step replaces is called ``replaced-...`` until the other has its name.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_status import note_save

RECORD = "data_parallel.json"
STATE = "trainer_state.json"
FORMAT = 2
INCOMPLETE = "incomplete-"
PRIVATE = 0o700
REPLACED = "replaced-"


def scratch_folder(home: str | Path) -> Path:
    """Where the next checkpoint of the folder ``home`` is written."""
    return Path(home, INCOMPLETE + "checkpoint")


def recover(home: str | Path) -> None:
    """Give checkpoints their names back that were about to be replaced when the job was killed."""
    for replaced in Path(home).glob(REPLACED + "*"):
        target = replaced.with_name(replaced.name.removeprefix(REPLACED))
        if target.exists():
            remove(replaced)
        else:
            replaced.rename(target)


def clear_leftovers(home: str | Path) -> None:
    """Remove what interrupted saves and removals left in ``home``."""
    recover(home)
    for leftover in Path(home).glob(INCOMPLETE + "*"):
        shutil.rmtree(leftover)


@contextmanager
def nothing_by_halves(home: str | Path) -> Iterator[None]:
    """While a checkpoint is written to ``home``: its scratch folder is private, and goes if writing fails."""
    clear_leftovers(home)
    note_save(Path(home))
    scratch_folder(home).mkdir(mode=PRIVATE, parents=True)
    try:
        yield
    except BaseException:
        clear_leftovers(home)
        raise


def publish(written: Path, home: str | Path, record: dict[str, Any]) -> None:
    """Give a folder that is written its place among the checkpoints, readable by its owner only; one of the same
    name goes.

    Args:
        written: The folder, already under its final name, somewhere in ``home``.
        home: Where it belongs.
        record: What ``read_record`` is to return; what JSON can hold.
    """
    files = [path for path in sorted(written.rglob("*")) if path.is_file()]
    sizes = {str(path.relative_to(written)): path.stat().st_size for path in files}
    record_file = written / RECORD
    record_file.write_text(json.dumps({"format": FORMAT, **record, "files": sizes}), encoding="utf-8")
    written.chmod(PRIVATE)
    for path in [*written.rglob("*"), written]:
        _bring_to_disk(path)
    target = Path(home, written.name)
    if target.exists():
        target.rename(target.with_name(REPLACED + target.name))
    written.rename(target)
    clear_leftovers(home)
    _bring_to_disk(target.parent)


def remove(folder: str | Path, ignore_errors: bool = False) -> None:
    """Remove a checkpoint so that at no time half of it stands under its name; otherwise as ``shutil.rmtree``."""
    folder = Path(folder)
    leaving = folder.with_name(INCOMPLETE + folder.name)
    folder.rename(leaving)
    shutil.rmtree(leaving, ignore_errors)


def read_record(folder: str | Path) -> dict[str, Any]:
    """What ``publish`` was given with a checkpoint.

    Raises:
        DataParallelError: If the checkpoint is damaged; the newest whole one beside it is offered.
    """
    folder = Path(folder)
    if problem := problem_of(folder):
        others = (other for other in _newest_first(folder.absolute().parent) if not problem_of(other))
        whole = next(others, None)
        way_out = (
            f"the newest whole checkpoint is {str(whole)!r}: resume from that one."
            if whole
            else "there is no whole checkpoint beside it: train from the start."
        )
        raise DataParallelError(f"Cannot resume from {str(folder)!r}: {problem}; {way_out}")
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))


def newest(home: str | Path, origin: dict[str, Any]) -> Path | None:
    """The newest whole checkpoint of a folder that comes from ``origin``: whose record holds what that holds."""
    folders = _newest_first(Path(home)) if Path(home).is_dir() else []
    whole = (folder for folder in folders if not problem_of(folder))
    return next((folder for folder in whole if origin.items() <= read_record(folder).items()), None)


def at_epoch_ends(home: str | Path) -> list[Path]:
    """The whole checkpoints of a folder that stand at the end of an epoch, newest first."""
    whole = [folder for folder in _newest_first(Path(home)) if not problem_of(folder)]
    return [folder for folder in whole if read_record(folder)["micro_steps_in_epoch"] == 0]


def problem_of(folder: Path) -> str | None:
    """What is wrong with a checkpoint; None if nothing is."""
    if not folder.is_dir():
        return "there is no such folder"
    record, problem = _read_json(folder / RECORD)
    if problem:
        return problem
    if record.get("format") != FORMAT:
        return f"{RECORD} has format {record.get('format')!r}, this version of the plugin reads {FORMAT}"
    for name, size in record["files"].items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if (found := (folder / name).stat().st_size) != size:
            return f"{name} has {found} bytes, {size} were written"
    return _read_json(folder / STATE)[1]


def _read_json(path):
    """Its content, and what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = " (training on several ranks writes it)" if path.name == RECORD else ""
        return None, f"{path.name} is missing{hint}"
    except ValueError:
        return None, f"{path.name} is not JSON"
    return (content, None) if isinstance(content, dict) else (None, f"{path.name} is not a JSON object")


def _newest_first(home):
    folders = [path for path in home.iterdir() if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(folders, key=lambda folder: int(folder.name.partition("-")[2]), reverse=True)


def _bring_to_disk(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
