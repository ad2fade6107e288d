"""What `mindnlp-dp doctor --memory` says a rank needs: the arithmetic, and a real gradient of a small model."""

import json
import re
import sys

import pytest

from mindnlp_dp_plugin.doctor.memory import GIGABYTE, Trial, needs
from tests.harness import run

MODEL = Trial("Model", trained=1000, frozen_bytes=300, largest=100, activation_bytes=7)


@pytest.mark.parametrize(
    "nproc, stage, gradients, states",
    [(1, 0, 4000, 8000), (4, 0, 4000, 8000), (4, 1, 4000, 2000), (4, 2, 1000, 2000)],
)
def test_stages_share_out_states_and_gradients(nproc, stage, gradients, states):
    found = needs(MODEL, nproc, stage)
    assert (found["parameters"], found["activations"]) == (4300, 7)
    assert (found["gradients"], found["optimizer states"]) == (gradients, states)
    assert found["buckets"] == (4000 if nproc > 1 else 0)


def test_with_stage_2_few_buckets_are_held_at_a_time():
    large = Trial("Model", trained=GIGABYTE, frozen_bytes=0, largest=2**20, activation_bytes=0)
    assert needs(large, 2, 1)["buckets"] == 4 * GIGABYTE
    assert needs(large, 2, 2)["buckets"] < GIGABYTE / 4


def doctor(*arguments):
    return run([sys.executable, "-m", "mindnlp_dp_plugin.cli", "doctor", "--memory", *map(str, arguments)])


@pytest.mark.parametrize(
    "config, title",
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "BertForMaskedLM with AdamW on 4 ranks"),
        ({"model_type": "roberta"}, "RobertaForSequenceClassification with AdamW on 4 ranks"),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_the_table_of_a_configuration(tmp_path, config, title):
    sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256, vocab_size=60_000)
    (tmp_path / "config.json").write_text(json.dumps({**config, **sizes}))
    finished = doctor(tmp_path, "--nproc", 4, "--batch", 8, "--length", 128)
    assert finished.returncode == 0, finished.stderr
    assert f"{title}, 8 x 128 tokens each" in " ".join(finished.stdout.split())  # a long title takes two lines
    found = re.findall(r"^\| ([a-z ]+?) +\|" + r" +([\d.]+) \|" * 3, finished.stdout, re.M)
    rows = {name: list(map(float, cells)) for name, *cells in found}
    assert rows["parameters"][0] > 0.02 and rows["activations"][0] > 0
    assert rows["optimizer states"][0] > rows["optimizer states"][1] > 0
    assert finished.stdout.count("fits") == 9


def test_a_model_that_cannot_be_read_is_one_clear_error(tmp_path):
    finished = doctor(tmp_path)
    assert finished.returncode == 2 and "Traceback" not in finished.stderr
    assert finished.stderr.startswith(f"mindnlp-dp: error: --memory {tmp_path}: a gradient of 8 x 128 tokens failed: ")
