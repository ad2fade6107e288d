"""What a run that goes on must have in common with its beginning, and that no finished run is ever taken apart."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes import load_predictor
from mindnlp_dp_plugin.recipes.callbacks import Terminal
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.training import train
from tests.recipes.test_tables import write

ROWS = [{"text": f"{('dull', 'fine')[row % 2]} film number {row}", "label": "ab"[row % 2]} for row in range(80)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of one epoch, and its options."""
    folder = tmp_path_factory.mktemp("finished")
    data = write(folder / "data.csv", ROWS)
    options = RecipeOptions(
        str(data), model="small-bert", epochs=1.0, report_to=("none",), seed=7, output_dir=folder / "run"
    )
    train(options)
    return options


def contents(folder):
    """The bytes of all files of a run."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def interrupted(self, *args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "others, words",
    [
        ({"seed": 8}, "began with seed=7, and this one has 8: give the same, or train from the start in another"),
        ({"max_length": 64}, "began with max-length=128, and this one has 64"),
        ({"model": "small-roberta"}, "began with model='small-bert', and this one has 'small-roberta'"),
        ({"lora": True}, "began with lora=False, and this one has True"),
    ],
)
def test_another_seed_model_or_length_is_refused_and_nothing_is_touched(finished, others, words):
    before = contents(finished.output_dir)
    options = replace(finished, resume=True, epochs=2.0, **others)
    for begin in (lambda: check(options, 1, "classification"), lambda: train(options)):
        with pytest.raises(DataParallelError) as refused:
            begin()
        assert words in str(refused.value) and "\n" not in str(refused.value)
    assert contents(finished.output_dir) == before


@pytest.mark.parametrize("change", ["edited", "more"])
def test_other_rows_are_refused_and_nothing_is_touched(finished, change):
    before, rows = contents(finished.output_dir), [dict(row) for row in ROWS]
    if change == "edited":
        rows[3]["text"] += "!"
    else:
        rows += [{"text": f"dull and new {row}", "label": "a"} for row in range(60)]
    path = finished.output_dir.parent / "data.csv"
    kept = path.read_bytes()
    try:
        write(path, rows)
        with pytest.raises(DataParallelError, match="the rows of the (train|dev) split are not those that the run in"):
            check(replace(finished, resume=True), 1, "classification")
    finally:
        path.write_bytes(kept)
    assert contents(finished.output_dir) == before


def test_checkpoints_without_a_fingerprint_are_not_gone_on_from(finished):
    path = RunFolder(finished.output_dir).checkpoints / "fingerprint.json"
    kept = path.read_bytes()
    path.unlink()
    try:
        with pytest.raises(DataParallelError, match="began with task=None, and this one has 'classification'"):
            check(replace(finished, resume=True), 1, "classification")
    finally:
        path.write_bytes(kept)


def test_nothing_of_the_users_is_taken_for_what_a_run_left(tmp_path):
    (tmp_path / "run" / "prepared").mkdir(parents=True)
    options = RecipeOptions("nowhere.csv", output_dir=tmp_path / "run")
    with pytest.raises(DataParallelError, match="nowhere.csv"):
        train(options)
    assert (tmp_path / "run" / "prepared").exists()


def test_a_folder_belongs_to_one_run(finished):
    before, again = contents(finished.output_dir), replace(finished, epochs=2.0)
    for begin in (lambda: check(again, 1, "classification"), lambda: train(again)):
        with pytest.raises(DataParallelError, match="run' holds a finished run: give another --output-dir, or remove"):
            begin()
    assert contents(finished.output_dir) == before
    check(again, 2, "classification", prove=True)
    with pytest.raises(DataParallelError, match="began with seed=7, and this one has 8"):
        check(replace(again, seed=8), 2, "classification", prove=True)


def test_settings_name_the_folder_of_their_run_from_wherever_they_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RunFolder("my run").begin(RecipeOptions(output_dir=Path("my run")), "classification", {})
    settings = yaml.safe_load(Path("my run", "run.yaml").read_text(encoding="utf-8"))
    assert settings["output_dir"] == str(tmp_path / "my run"), "or --prove finds no report elsewhere, and says nothing"


def test_a_finished_run_outlives_one_that_is_interrupted_while_it_goes_on(finished, monkeypatch):
    before, more = contents(finished.output_dir), replace(finished, resume=True, epochs=3.0)
    with monkeypatch.context() as changed:
        changed.setattr("mindnlp_dp_plugin.recipes.training.leave_results", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(more)
    kept = ("metrics.json", "model/", "report.html", "run.yaml")
    now = contents(finished.output_dir)
    assert all(now.get(name) == of for name, of in before.items() if name.startswith(kept))
    assert load_predictor(finished.output_dir)(["fine film"])

    train(more)
    assert sorted(path.name for path in finished.output_dir.iterdir()) == [
        *("checkpoints", "metrics.json", "model", "report.html", "run.yaml")
    ]
    kept = json.loads((finished.output_dir / "metrics.json").read_text(encoding="utf-8"))
    epochs = [each["epoch"] for each in kept["history"] if "eval_macro_f1" in each]
    assert epochs == [1.0, 2.0, 3.0] and kept["best"]["epoch"] in epochs


def test_the_best_score_so_far_is_that_of_the_whole_run(capsys):
    terminal = Terminal(get_task("classification"))
    state = SimpleNamespace(is_world_process_zero=True, max_steps=9, global_step=3, epoch=2.0, best_metric=0.861)
    arguments = SimpleNamespace(num_train_epochs=3, metric_for_best_model="macro_f1", greater_is_better=True)
    terminal.on_train_begin(arguments, state, None)
    for score in (0.858, 0.870):
        terminal.on_evaluate(arguments, state, None, {"eval_macro_f1": score, "eval_f1": score})
    terminal.on_train_end(arguments, state, None)
    first, second = (line for line in capsys.readouterr().out.splitlines() if "macro F1 0.8" in line)
    assert "best so far" not in first and "best so far" in second
    assert ", F1 0.858" in first, "that of a class, though by chance it is the mean"
