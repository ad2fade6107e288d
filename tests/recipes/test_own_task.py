"""A task of one's own: one file, one template, one row of the registry, and the whole recipe works."""

import json

import click
import pytest

from mindnlp_dp_plugin.cli.recipe import add_recipe, recipe
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes import load_predictor
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.registry import RECIPES, Recipe
from mindnlp_dp_plugin.recipes.training import train
from tests.recipes.test_tables import write


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(RECIPES, "shouting", Recipe("How loud a text is.", module="tests.recipes.shouting"))
    monkeypatch.setattr(recipe, "commands", dict(recipe.commands))


def test_a_task_of_ones_own_from_its_options_to_its_predictions(registered, tmp_path, monkeypatch, capsys):
    from tests.recipes.shouting import Options

    add_recipe("shouting")
    command = recipe.commands["shouting"]
    assert "--loud" in command.get_help(click.Context(command))
    texts = [("LISTEN NOW" if row % 3 else "a quiet word") + f" {row}" for row in range(60)]
    write(tmp_path / "data.csv", [{"text": text, "label": sum(map(str.isupper, text)) / len(text)} for text in texts])
    options = Options(
        str(tmp_path / "data.csv"),
        model="small-bert",
        loud=0.4,
        epochs=1.0,
        output_dir=tmp_path / "run",
        report_to=("none",),
    )
    assert Options.from_json(options.to_json()) == options, "the ranks read what the command line gave"
    check(options, 1, "shouting")
    with pytest.raises(DataParallelError, match="--best-by 'loss' is no score of shouting: give one of capitals"):
        check(Options(options.dataset, best_by="loss"), 1, "shouting")
    train(options, "shouting")
    said, page = capsys.readouterr().out, (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (
        "train: 54 rows. Texts that shout: loud (36)" in said
        and "error of capitals" in said
        and "by nobody shouts" in said
    )
    assert "Texts that shout" in page and "<p>0.4 nobody shouts</p>" in page
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert kept["loud"] == 0.4 and kept["settings"]["loud"] == 0.4 and "capitals" in kept["baselines"]["never"]
    (answer,) = load_predictor(tmp_path / "run")(["HEAR ME"])
    assert isinstance(answer["label"], float)
