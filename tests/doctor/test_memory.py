"""What `mindnlp-dp doctor --memory` says a rank needs: the arithmetic, real models and scripts, and real peaks."""

import json
import sys

import pytest

from mindnlp_dp_plugin.doctor.memory import EXAMPLE, GIGABYTE, MPI_BYTES, Trial, needs, peak_on_cpu, try_steps
from tests.harness import run, run_ranks_successfully

MODEL = Trial(
    model="Model",
    optimizer="AdamW",
    own_stage=0,
    trained=1000,
    largest=100,
    parameter_bytes=4300,
    gradient_bytes=4000,
    state_bytes=8000,
    process_bytes=50,
    step_bytes=4007,
)


@pytest.mark.parametrize(
    "nproc, stage, gradients, states",
    [(1, 0, 4000, 8000), (4, 0, 4000, 8000), (4, 1, 4000, 2000), (4, 2, 1000, 2000)],
)
def test_stages_share_out_states_and_gradients(nproc, stage, gradients, states):
    found = needs(MODEL, nproc, stage)
    assert found["parameters"] == 4300 and found["gradients"] + found["activations"] == 4007
    assert (found["gradients"], found["optimizer states"]) == (gradients, states)
    assert found["buckets"] == (4000 if nproc > 1 else 0)
    assert peak_on_cpu(MODEL, nproc, stage) == 50 + (MPI_BYTES if nproc > 1 else 0) + 4300 + 4007 + states


def test_with_stage_2_few_buckets_are_held_at_a_time():
    large = MODEL._replace(trained=GIGABYTE, largest=2**20)
    assert needs(large, 2, 1)["buckets"] == 4 * GIGABYTE
    assert needs(large, 2, 2)["buckets"] < GIGABYTE / 4


def doctor(*arguments):
    return run([sys.executable, "-m", "mindnlp_dp_plugin.cli", "doctor", *map(str, arguments)])


def refused(*arguments):
    """The one line with which a command line is refused."""
    finished = doctor(*arguments)
    assert finished.returncode == 2 and finished.stderr.count("\n") == 1, finished.stderr
    return finished.stderr


def table(finished):
    """Its title, and the cells of each row."""
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return " ".join(finished.stdout.split("+")[0].split()), {name: cells for name, *cells in rows}


SIZES = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256, vocab_size=60_000)


@pytest.mark.parametrize(
    "config, title",
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "BertForMaskedLM with AdamW"),
        pytest.param({"model_type": "roberta"}, "RobertaForSequenceClassification with AdamW", marks=pytest.mark.slow),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_the_table_of_a_configuration(tmp_path, config, title):
    (tmp_path / "config.json").write_text(json.dumps({**config, **SIZES}))
    finished = doctor("--memory", tmp_path, "--nproc", 4, "--batch", 4, "--length", 32)
    found, rows = table(finished)
    assert found.replace(" ", "") == f"{tmp_path} 4x32: {title}, ranks: 4".replace(" ", ""), "but for where it breaks"
    assert rows["GB on each rank"] == ["zero_stage=0", "zero_stage=1", "zero_stage=2", "zero_stage=3"]
    whole, *_, part = map(float, rows["parameters"])
    assert whole > 0.02 and part == pytest.approx(whole / 4, abs=0.006) and float(rows["activations"][0]) > 0
    plain, one, two, three = map(float, rows["optimizer states"])
    assert plain > one == two == three > 0
    assert float(rows["process on this CPU"][0]) > 0.6
    assert finished.stdout.count("fits") == 12


def test_a_model_that_cannot_be_read_is_one_clear_error(tmp_path):
    finished = doctor("--memory", tmp_path)
    assert finished.returncode == 2 and "Traceback" not in finished.stderr
    assert finished.stderr.startswith(f"mindnlp-dp: error: --memory {tmp_path} 8x128: no steps can be tried (")
    assert finished.stderr.endswith("or a folder with a config.json and a batch that fits this machine.\n")


SCRIPT = """
import mindnlp_dp_plugin as dp
import mindspore, numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification

class Telling(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        open("begun", "w")

dp.install(dp.DataParallelConfig(zero_stage=1, async_save=True))
model = BertForSequenceClassification(BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=2,
                                                 intermediate_size=256, vocab_size=60_000))
rows = {"input_ids": np.full((200, 16), 7), "labels": np.zeros(200, np.int64)}
data = mindspore.dataset.NumpySlicesDataset(rows).batch(2)
arguments = TrainingArguments("output", optim="sgd", gradient_accumulation_steps=2, group_by_length=True, save_steps=1)
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Telling()])
open("built", "w").write(str(dp.get_world_size()))
trainer.train()
open("trained", "w")
"""


def test_the_table_of_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    title, rows = table(doctor("--memory", "train.py", "--nproc", 3, "--zero", 1))
    assert title == "train.py: BertForSequenceClassification with SGD, ranks: 3"
    assert rows["GB on each rank"] == ["zero_stage=1, as set"]
    assert rows["optimizer states"] == ["0.00"]
    assert (tmp_path / "built").read_text() == "3"
    assert not (tmp_path / "begun").exists() and not (tmp_path / "trained").exists()
    assert not list(tmp_path.glob("output/*"))


def test_a_script_that_trains_nothing_is_one_clear_error(tmp_path):
    script = tmp_path / "idle.py"
    script.write_text("print('hello')")
    line = refused("--memory", script, "--zero", 0)
    assert f"--memory {script}: no steps can be tried (the script has ended without Trainer.train()). Give" in line


def test_options_that_would_be_ignored_are_refused(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    assert "--nproc, --batch, --fp16 needs --memory" in refused("--nproc", 2, "--batch", 8, "--fp16", script)
    assert "--zero needs --memory" in refused("--zero", 1)
    assert "--length is for a model" in refused("--memory", script, "--length", 64)
    assert "--json, SCRIPT does not go with --memory" in refused("--memory", tmp_path, "--json", script)


SHAPES = {
    "bert": dict(
        model_type="bert", architectures=["BertForMaskedLM"],
        hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048,
    ),
    "odd vocabulary": dict(
        model_type="roberta", vocab_size=50_265, max_position_embeddings=514,
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
    ),
    "gpt2": dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_embd=384, n_layer=6, n_head=6),
    "t5": dict(
        model_type="t5", architectures=["T5ForConditionalGeneration"], decoder_start_token_id=0, pad_token_id=0
    ),
    "wide": dict(
        model_type="bert", vocab_size=2000,
        hidden_size=2048, num_hidden_layers=1, num_attention_heads=16, intermediate_size=8192,
    ),
    "deep": dict(
        model_type="bert", hidden_size=192, num_hidden_layers=24, num_attention_heads=3, intermediate_size=768
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape, stage",
    [*((shape, 0) for shape in SHAPES), ("t5", 1), ("t5", 2), ("wide", 2), ("bert", 3), ("deep", 3), ("t5", 3)],
)
def test_the_peak_of_a_rank_is_what_it_says(tmp_path, shape, stage):
    (tmp_path / "config.json").write_text(json.dumps(SHAPES[shape]))
    said = peak_on_cpu(try_steps([*EXAMPLE, str(tmp_path), "8x64"], 2, stage), 2, stage)
    arguments = tmp_path, tmp_path, stage, 8, 64
    run_ranks_successfully("training_peak.py", *arguments, ranks=2, backend="mpi", log_dir=tmp_path / "logs")
    for rank in range(2):
        assert said == pytest.approx(json.loads((tmp_path / f"rank{rank}.json").read_text()), rel=0.05)
