"""Try to resume from checkpoints that cannot be, and leave what was said in ``OUTPUT/said.rank<r>.json``.

    python resume_mistakes.py OUTPUT WHOLE EARLIER

WHOLE is the folder with the checkpoints of ``two_epochs`` of resume_scenarios.py. What is tried depends on the
number of ranks; those of resume_scenarios.py were two. Two ranks resume from one of its checkpoints and from EARLIER,
too, and leave in ``OUTPUT/read.rank<r>.json``, for each: how many bytes this rank hashed, how often it opened each of
its files, and what it ended with.
"""

import json
import os
import pickle
import shutil
import sys
import zipfile
from collections import Counter
from pathlib import Path

import xxhash

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.checkpoint import store
from tests.programs.resume_scenarios import SCENARIOS, shuffled, shuffled_rows, train

OUTPUT, WHOLE, EARLIER = map(Path, sys.argv[1:])
SCENARIO = SCENARIOS["two_epochs"]


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


class Evil:
    def __reduce__(self):
        return os.mkdir, (str(OUTPUT / "has_run"),)


def plant_code(folder):
    """An optimizer of the size that was written, which runs code if it is unpickled by the book."""
    path = folder / "optimizer.ckpt"
    size, padding = path.stat().st_size, 0
    while path.stat().st_size != size or not padding:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(Evil(), protocol=2))
            archive.writestr("archive/padding", bytes(padding))
        padding += size - path.stat().st_size
    record = json.loads((folder / store.RECORD).read_text())
    del record["digests"]  # one who plants code can write any digest
    (folder / store.RECORD).write_text(json.dumps(record))


def flip_a_bit(path):
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


DAMAGES = {
    "other_weights": lambda folder: flip_a_bit(folder / "model.safetensors"),
    "code": plant_code,
    "missing_weights": lambda folder: (folder / "model.safetensors").unlink(),
    "half_an_optimizer": lambda folder: cut_in_half(folder / "optimizer.ckpt"),
    "half_a_record": lambda folder: cut_in_half(folder / "data_parallel.json"),
    "no_record": lambda folder: (folder / "data_parallel.json").unlink(),
    "another_format": lambda folder: (folder / "data_parallel.json").write_text('{"format": 0}'),
    "nothing": shutil.rmtree,
}
CHANGES = {
    "other_batch_size": dict(dataset=lambda: shuffled_rows(6).batch(5)),
    "other_accumulation": dict(gradient_accumulation_steps=2),
    "other_seed": dict(seed=7),
    "other_grouping": dict(group_by_length=True),
    "other_rows": dict(dataset=lambda: shuffled(5)),
}
# 3 micro-steps an epoch: steps at the end of each, and where 4 have come together.
SHORT = dict(dataset=lambda: shuffled(3), gradient_accumulation_steps=4, max_steps=3, save_steps=1)


def said_on(resume, output=OUTPUT / "resumed", **changes):
    try:
        end = train(output, resume=resume, **{**SCENARIO, **changes})
        return f"ended at step {end['step']}, epoch {end['epoch']}"
    except dp.DataParallelError as error:
        return str(error)


def damaged(name, damage):
    folder = OUTPUT / name
    if dp.is_main_process():
        shutil.copytree(WHOLE, folder)
        damage(folder / "checkpoint-8")
    dp.barrier()
    return said_on(str(folder / "checkpoint-8"))


def about_to_be_replaced():
    """Killed when the only checkpoint had given up its name and the one to replace it had not yet got it."""
    folder = OUTPUT / "about_to_be_replaced"
    if dp.is_main_process():
        shutil.copytree(WHOLE / "checkpoint-6", store.workspace(folder) / "replaced" / "checkpoint-6")
        shutil.copytree(WHOLE / "checkpoint-6", store.scratch_folder(folder) / "checkpoint-6")
    dp.barrier()
    return said_on(True, output=folder)


def short_epochs():
    train(OUTPUT / "short", **{**SCENARIO, **SHORT})
    said = {step: said_on(str(OUTPUT / f"short/checkpoint-{step}"), **SHORT) for step in (1, 2, 3)}
    return said | {"anew": said_on(str(OUTPUT / "short/checkpoint-2"), ignore_data_skip=True, **SHORT)}


class Counting:
    """In place of the library, for ``store``."""

    num_bytes = 0

    def xxh3_128(self):
        hashed = xxhash.xxh3_128()

        class State:
            def update(_, chunk):
                self.num_bytes += len(chunk)
                hashed.update(chunk)

            def hexdigest(_):
                return hashed.hexdigest()

        return State()


def read(*checkpoints):
    opened, found = Counter(), []

    def note(event, arguments):
        if event == "open" and isinstance(arguments[0], (str, Path)) and Path(arguments[0]).parent in checkpoints:
            opened[Path(arguments[0])] += 1

    sys.addaudithook(note)
    for number, checkpoint in enumerate(checkpoints):
        store.xxhash, settings = Counting(), {**SCENARIO, "save_strategy": "no"}
        end = train(OUTPUT / f"resumed{number}", resume=str(checkpoint), **settings)
        names = {path.name: times for path, times in opened.items() if path.parent == checkpoint}
        found.append({"hashed": store.xxhash.num_bytes, "opened": names, "parameters": end["parameters"]})
    (OUTPUT / f"read.rank{dp.get_rank()}.json").write_text(json.dumps(found))


def main():
    said = {}
    if dp.get_world_size() == 2:
        said["about_to_be_replaced"] = about_to_be_replaced()
        said |= {name: damaged(name, damage) for name, damage in DAMAGES.items()}
        said |= {name: said_on(str(WHOLE / "checkpoint-4"), **changes) for name, changes in CHANGES.items()}
        said["short_epochs"] = short_epochs()
        read(WHOLE / "checkpoint-4", EARLIER)
    elif dp.get_world_size() == 1:
        adapter = WHOLE.parent / "adapter" / "checkpoint-4"
        said["other_batch"] = said_on(str(WHOLE / "checkpoint-4"))
        of_both_ranks = {**SCENARIOS["adapter"], "dataset": lambda: shuffled_rows(3).batch(8)}
        said["alone"] = train(OUTPUT / "alone", resume=str(adapter), **of_both_ranks)["parameters"]
    else:
        said["middle_of_an_epoch"] = said_on(str(WHOLE / "checkpoint-8"))
        said["end_of_an_epoch"] = said_on(str(WHOLE / "checkpoint-6"))
    (OUTPUT / f"said.rank{dp.get_rank()}.json").write_text(json.dumps(said))


main()
