"""The report on small screens and of many classes."""

import re

import numpy as np

from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from tests.recipes.test_parts import results_of


def written(tmp_path, *args, **others):
    report.write(RunFolder(tmp_path), results_of(*args, **others))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_many_classes_are_a_list_of_confusions_and_of_classes_with_the_worst_first(tmp_path):
    labels = np.repeat(np.arange(50), 2)
    predicted = np.where(labels == 30, 7, labels)
    page = written(tmp_path, [f"class{number}" for number in range(50)], np.eye(50)[predicted], labels)
    assert "<h2>Most frequent confusions" in page and "Confusion matrix" not in page
    classes = page[page.index('<table class="classes">') :]
    assert "<th>rows predicted</th>" in classes
    order = re.findall(r'<th scope="row">(class\d+)</th>', classes)
    assert order[:2] == ["class30", "class7"], "without F1, and with two rows too many"
    assert "<h2>Confusion matrix" in written(tmp_path, ["a", "b"], np.eye(2), np.arange(2))


def test_a_run_on_generated_data_is_repeated_by_a_recipe_that_generates_it(tmp_path):
    settings = {"epochs": 3.0, "max_length": 128, "model": None}
    page = written(tmp_path, ["a", "b"], np.eye(2), np.arange(2), settings={**settings, "dataset": None})
    assert "mindnlp-dp recipe roberta-imdb --config run.yaml --output-dir again" in page
    page = written(tmp_path, ["a", "b"], np.eye(2), np.arange(2), settings={**settings, "dataset": "data.csv"})
    assert "mindnlp-dp recipe classification --config run.yaml --output-dir again" in page


def test_commands_of_a_folder_with_blanks_can_be_copied(tmp_path):
    settings = {"epochs": 3.0, "max_length": 128, "model": None, "output_dir": "my run"}
    parallel = {"rows_per_rank": 16, "global_batch": 32, "steps": 9, "rows_per_second": 5.0}
    page = written(tmp_path, ["a", "b"], np.eye(2), np.arange(2), settings=settings, parallel=parallel)
    assert "--config &#39;my run/run.yaml&#39; --prove" in page


def test_scores_are_in_percent_and_settings_in_their_own_words(tmp_path):
    page = written(tmp_path, ["a", "b"], np.eye(2)[[1, 0]], np.arange(2))
    advice = re.search(r'(?s)<section class="card advice">(.*?)</section>', page)[1]
    assert "macro F1: 80.0 points below TF-IDF" in advice and "0.800" not in advice
    assert (
        "--model roberta-base --mirror hf-mirror, or --model AI-ModelScope/roberta-base --mirror modelscope" in advice
    )
    assert "<h2>Settings and command</h2>" in page and "<summary>All settings</summary>" in page
