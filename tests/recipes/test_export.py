"""A trained model leaves: what was exported is loaded again, without MindNLP."""

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import json

import pytest
from mindnlp import transformers

from mindnlp_dp_plugin.recipes import save_small_bert
from tests.harness import run

SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=50)
MORE = {"Albert": {"embedding_size": 8}, "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}}


def made(folder, family):
    save_small_bert(folder, ["a good film", "a bad film"] * 20, 2, 32)
    config = getattr(transformers, f"{family}Config")(**SIZES, **MORE.get(family, {}))
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


def export(folder, *options):
    return run(["mindnlp-dp", "export", str(folder), *options, "--log-dir", str(folder / "logs")])


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "Electra", "Albert"])
def test_mindir_gives_the_models_logits(tmp_path, family):
    result = export(made(tmp_path / "run", family), "--format", "mindir", "--max-length", "16", "--batch", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "run" / "model.mindir").stat().st_size > 1000
    assert "logits differ by" in result.stdout


def test_safetensors_are_marked_as_transformers_wants_them(tmp_path):
    from safetensors import safe_open

    made(tmp_path / "run" / "model", "Bert")
    numbers = {"settings": {"max_length": 16}, "mean": 3.5, "std": 0.25}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(numbers))
    result = export(tmp_path / "run", "--format", "safetensors")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "its numbers are in standard deviations: multiply them by 0.25 and add 3.5" in result.stdout
    folder = tmp_path / "run" / "huggingface"
    with safe_open(folder / "model.safetensors", "np") as weights:
        assert weights.metadata() == {"format": "pt"}
        assert "bert.encoder.layer.0.attention.self.query.weight" in weights.keys()  # noqa: SIM118
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    assert (folder / "vocab.txt").exists() or (folder / "tokenizer.json").exists()


def test_what_cannot_be_exported_is_refused(tmp_path):
    assert "holds no model" in export(tmp_path, "--format", "mindir").stderr
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    assert "holds GPT2LMHeadModel" in export(tmp_path, "--format", "mindir").stderr
