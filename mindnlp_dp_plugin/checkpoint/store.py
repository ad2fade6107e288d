"""Checkpoint folders: written whole or not at all, and looked over before they are read.

A checkpoint is written in the workspace, a folder beside the checkpoints that holds nothing but what the plugin is
about to finish or to remove; it is brought to the disk, then renamed. It leaves by the same way. So whatever is called
``checkpoint-N`` is whole, whenever the job was killed. One that another of the same step replaces waits in the
workspace until the other has its name. No other file of the folder is ever touched.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import xxhash

from mindnlp_dp_plugin.checkpoint import owner
from mindnlp_dp_plugin.checkpoint.record import Record
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_status import SAVES, note
from mindnlp_dp_plugin.language import tr

RECORD = "data_parallel.json"
STATE = "trainer_state.json"
FORMAT = 2
WORKSPACE = ".mindnlp_dp_plugin"
INCOMPLETE, REPLACED, LEAVING = "incomplete", "replaced", "leaving"
PRIVATE = 0o700
CHUNK = 2**20

Judge = Callable[[Path], str | None]
"""Says what is wrong with a checkpoint's folder."""


def workspace(output_dir: str | Path) -> Path:
    """The folder in ``output_dir`` that is the plugin's own."""
    return Path(output_dir, WORKSPACE)


def scratch_folder(output_dir: str | Path) -> Path:
    """Where the next checkpoint of the folder ``output_dir`` is written."""
    return workspace(output_dir) / INCOMPLETE


def open_workspace(output_dir: str | Path) -> str | None:
    """Before training: claim ``output_dir``, and put in order what a killed job left in it.

    Returns:
        Who claims it, if that may be a job on another node that still runs.

    Raises:
        DataParallelError: If another process, which runs, writes checkpoints there.
    """
    note(SAVES, str(Path(output_dir).absolute()))
    stranger = owner.claim(workspace(output_dir))
    clear_leftovers(output_dir)
    return stranger


def close_workspace(output_dir: str | Path) -> None:
    """After training: leave nothing but checkpoints."""
    if not owner.is_anothers(workspace(output_dir)):
        shutil.rmtree(workspace(output_dir), ignore_errors=True)


def clear_leftovers(output_dir: str | Path) -> None:
    """Remove what interrupted saves and removals left in ``output_dir``, unless they belong to another job that runs.

    Checkpoints that were about to be replaced get their names back.
    """
    folder = workspace(output_dir)
    if owner.is_anothers(folder) or not folder.is_dir():
        return
    for replaced in sorted((folder / REPLACED).glob("*")):
        if not (target := Path(output_dir, replaced.name)).exists():
            replaced.rename(target)
    for kind in (INCOMPLETE, REPLACED, LEAVING):
        shutil.rmtree(folder / kind, ignore_errors=True)
    if not owner.is_mine(folder):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_save(output_dir: str | Path) -> Iterator[Path]:
    """While a checkpoint is written to ``output_dir``: its scratch folder is private, and goes if writing fails."""
    clear_leftovers(output_dir)
    note(SAVES, str(Path(output_dir).absolute()))
    scratch_folder(output_dir).mkdir(mode=PRIVATE, parents=True)
    try:
        yield scratch_folder(output_dir)
    finally:
        clear_leftovers(output_dir)


def publish(written: Path, output_dir: str | Path, record: dict[str, Any]) -> None:
    """Give a folder that is written its place among the checkpoints, readable by its owner only; one of the same
    name goes.

    Args:
        written: The folder, already under its final name, somewhere in ``output_dir``.
        output_dir: Where it belongs.
        record: What ``read_whole`` is to return; what JSON can hold. ``Record.as_json`` of a Trainer's checkpoint.
    """
    files = [path for path in sorted(written.rglob("*")) if path.is_file()]
    names = [str(path.relative_to(written)) for path in files]
    contents = {
        "files": {name: path.stat().st_size for name, path in zip(names, files)},
        "digests": {name: digest(path) for name, path in zip(names, files)},
    }
    (written / RECORD).write_text(json.dumps({"format": FORMAT, **record, **contents}), encoding="utf-8")
    with suppress(OSError):  # some network file systems know no modes; the folder around it is private, too
        written.chmod(PRIVATE)
    for path in [*written.rglob("*"), written]:
        _bring_to_disk(path)
    target = Path(output_dir, written.name)
    if target.exists():
        replaced = workspace(output_dir) / REPLACED / target.name
        replaced.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        target.rename(replaced)
    written.rename(target)
    clear_leftovers(output_dir)
    _bring_to_disk(target.parent)


def amend(folder: Path, **changes: Any) -> None:
    """Change fields of a checkpoint's record."""
    content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    written = workspace(folder.parent) / RECORD
    written.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    written.write_text(json.dumps({**content, **changes}), encoding="utf-8")
    _bring_to_disk(written)
    written.replace(folder / RECORD)


def remove(folder: str | Path, ignore_errors: bool = False) -> None:
    """Remove a checkpoint so that at no time half of it stands under its name; otherwise as ``shutil.rmtree``."""
    folder = Path(folder)
    leaving = workspace(folder.parent) / LEAVING / folder.name
    leaving.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    folder.rename(leaving)
    shutil.rmtree(leaving, ignore_errors)
    with suppress(OSError):  # not empty
        leaving.parent.rmdir()
        leaving.parent.parent.rmdir()


def read_whole(folder: str | Path) -> dict[str, Any]:
    """What ``publish`` was given, and the files with their digests. All files are read.

    Raises:
        DataParallelError: If one is damaged; the newest whole checkpoint beside it is offered.
    """
    if problem := problem_of_files(Path(folder)):
        raise refusal(folder, problem, problem_of_files)
    return read_published(folder)


def read_published(folder: str | Path) -> dict[str, Any]:
    """What ``read_whole`` returns of a checkpoint that is known to be whole. Its other files are not read."""
    return _read_manifest(Path(folder))[0]


def read_record(folder: str | Path) -> Record:
    """What a Trainer's checkpoint says of itself. Whether its other files are whole, ``problem_of`` tells.

    Raises:
        DataParallelError: If it cannot be read; the newest whole checkpoint beside it is offered.
    """
    content, problem = _read_manifest(Path(folder))
    if problem := problem or _missing_in(content):
        raise refusal(folder, problem)
    return Record.from_json(content)


def refusal(folder: str | Path, problem: str, judge: Judge | None = None) -> DataParallelError:
    """Of a checkpoint with a problem; the newest one beside it in which ``judge`` finds none is offered."""
    whole = next(whole_in(Path(folder).absolute().parent, judge), None)
    hint = (
        tr("the newest whole checkpoint is {folder!r}: resume from that one.", folder=str(whole))
        if whole
        else tr("there is no whole checkpoint beside it: train from the start.")
    )
    return DataParallelError(
        "Cannot resume from {folder!r}: {problem}; {hint}", folder=str(folder), problem=problem, hint=hint
    )


def published_in(output_dir: str | Path) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """The checkpoints of a folder, of whatever Trainer, newest first; and as ``read_published``, or None."""
    for folder in newest_first(output_dir):
        content, problem = _read_manifest(folder)
        yield folder, None if problem else content


def newest_first(output_dir: str | Path) -> list[Path]:
    """What stands as a checkpoint in a folder, by name alone."""
    folders = [path for path in Path(output_dir).glob("checkpoint-*") if re.fullmatch(r"checkpoint-[0-9]+", path.name)]
    return sorted(folders, key=step_of, reverse=True)


def whole_in(output_dir: str | Path, judge: Judge | None = None) -> Iterator[Path]:
    """The whole checkpoints of a folder, newest first.

    Args:
        output_dir: The folder.
        judge: What is wrong with one; None for ``problem_of``.
    """
    return (folder for folder in newest_first(output_dir) if not (judge or problem_of)(folder))


def step_of(folder: Path) -> int:
    """The optimizer step after which a checkpoint was saved."""
    return int(folder.name.partition("-")[2])


def problem_of(folder: Path) -> str | None:
    """What is wrong with a checkpoint of MindNLP 0.4's Trainer; None if nothing is."""
    return problem_of_files(folder) or _missing_in(_read_manifest(folder)[0])


def problem_of_files(folder: Path) -> str | None:
    """What is wrong with the files of any checkpoint, whatever its record says; None if nothing is."""
    try:
        return _problem_of_files(folder)
    except OSError as error:
        return tr("it cannot be read ({error})", error=error)


def _problem_of_files(folder):
    content, problem = _read_manifest(folder)
    if problem:
        return problem
    files, digests = content.get("files"), content.get("digests", {})  # earlier versions noted none
    if not isinstance(files, dict) or not isinstance(digests, dict):
        return tr("{file} lists no files", file=RECORD)
    for name, size in files.items():
        if not (folder / name).is_file():
            return tr("{file} is missing", file=name)
        if (found := (folder / name).stat().st_size) != size:
            return tr("{file} has {found} bytes, {written} were written", file=name, found=found, written=size)
        if name in digests and digest(folder / name) != digests[name]:
            return tr("{file} does not have the contents that were written", file=name)
    return _read_json(folder / STATE)[1]


def _read_manifest(folder):
    """The content of the file ``RECORD``, and what is wrong with it."""
    if not folder.is_dir():
        return None, tr("there is no such folder")
    content, problem = _read_json(folder / RECORD)
    if not problem and content.get("format") != FORMAT:
        found = content.get("format")
        problem = tr(
            "{file} has format {found!r}, this version of the plugin reads {wanted}",
            file=RECORD,
            found=found,
            wanted=FORMAT,
        )
    return content, problem


def _missing_in(content):
    if missing := Record.missing_in(content):
        names = ", ".join(missing)
        return tr("{file} lacks {missing}, so another program has written it", file=RECORD, missing=names)
    return None


def _read_json(path):
    """Its content, and what is wrong with it."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for
        return None, tr("{file} is not a file", file=path.name)
    if not path.exists():
        if path.name == RECORD:
            return None, tr("{file} is missing (training on several ranks writes it)", file=RECORD)
        return None, tr("{file} is missing", file=path.name)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return None, tr("it cannot be read ({error})", error=error)
    except (ValueError, RecursionError):
        return None, tr("{file} is not JSON", file=path.name)
    if isinstance(content, dict):
        return content, None
    return None, tr("{file} is not a JSON object", file=path.name)


def digest(path: Path) -> str:
    """128 bits of a file's contents, in hexadecimal digits."""
    state = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            state.update(chunk)
    return state.hexdigest()


def _bring_to_disk(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError if path.is_dir() else ()):  # some network file systems bring no folder to the disk
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
