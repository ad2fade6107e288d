"""Weights & Biases and SwanLab, offline: rank 0 alone writes, and what it writes is what the Trainer logged."""

import json
import struct
import sys
from collections import defaultdict
from importlib.util import find_spec

import pytest

from mindnlp_dp_plugin.cli import main
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.training import TRACKERS
from tests.harness import run_ranks_successfully
from tests.recipes.test_tables import reviews, write

BLOCK, HEADER, WHOLE, LAST = 32768, 7, 1, 4


def records(path):
    """The records of a log in LevelDB's format, which both services write."""
    content, place, parts = path.read_bytes(), HEADER, b""
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
        _, length, kind = struct.unpack("<IHB", content[place : place + HEADER])
        parts += content[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""


def train_with(name, tmp_path):
    run_ranks_successfully("services.py", tmp_path, name, ranks=2, backend="mpi", log_dir=tmp_path / "logs")
    assert (tmp_path / "of_rank0").exists() and not (tmp_path / "of_rank1").exists()
    return json.loads((tmp_path / "history.json").read_text())


@pytest.mark.slow
@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb")
def test_weights_and_biases_gets_every_number_once(tmp_path):
    from wandb.proto.wandb_internal_pb2 import Record

    history = train_with("wandb", tmp_path)
    (path,) = (tmp_path / "of_rank0" / "wandb").glob("offline-run-*/*.wandb")
    found, settings = defaultdict(dict), {}
    for content in records(path):
        record = Record()
        record.ParseFromString(content)
        for item in record.history.item:
            found["/".join(item.nested_key) or item.key][record.history.step.num] = json.loads(item.value_json)
        settings |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
    assert found["train/loss"] == {entry["step"]: entry["loss"] for entry in history if "loss" in entry}
    assert found["eval/loss"] == {4: next(entry["eval_loss"] for entry in history if "eval_loss" in entry)}
    assert {"train/grad_norm", "train/samples_per_second", "train/communication_wait_seconds"} < set(found)
    assert settings["args"]["max_steps"] == 4 and "average_over" in settings["data_parallel_config"]


@pytest.mark.skipif(find_spec("swanlab") is None, reason="needs swanlab, whose protobuf is older than MindSpore's")
def test_swanlab_gets_every_number(tmp_path):
    history = train_with("swanlab", tmp_path)
    (path,) = (tmp_path / "of_rank0").glob("run-*/*.swanlab")
    found = list(records(path))
    for name in ("loss", "learning_rate", "eval_loss", "grad_norm"):
        tag = (name.replace("_", "/", 1) if name.startswith("eval") else f"train/{name}").encode()
        written = [record for record in found if tag in record and b"\x10" in record]
        logged = [entry[name] for entry in history if entry.get(name)]
        assert all(any(struct.pack("<d", value) in record for record in written) for value in logged), name
        assert len(written) >= max(1, len(logged)), name


def test_a_recipe_reports_to_what_is_chosen(tmp_path, monkeypatch, capfd):
    assert RecipeOptions().trackers == ("tensorboard",) and RecipeOptions(report_to=("none",)).trackers == ()
    assert type(TRACKERS["tensorboard"](tmp_path)).__name__ == "TensorBoardCallback"
    with pytest.raises(DataParallelError, match="--report-to none, wandb: none goes with no other"):
        check(RecipeOptions(report_to=("none", "wandb")), 1, "classification")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mindnlp_dp_plugin.recipes.checks.find_spec", lambda name: name != "swanlab" or None)
    write(tmp_path / "data.csv", reviews(40))
    words = ["mindnlp-dp", "recipe", "classification", "--nproc", "2", "--dataset", "data.csv"]
    monkeypatch.setattr(sys, "argv", [*words, "--report-to", "swanlab"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "--report-to swanlab needs swanlab, which is not installed: pip install swanlab." in capfd.readouterr().err
