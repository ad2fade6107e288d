"""The proof that ranks train as one process: by real ranks, in the report, and not if they do not."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.proof import RECORD, compare, in_words, take_steps
from tests.distributed.test_example import run_command
from tests.recipes.test_tables import reviews, write


def record(**others):
    """What ten steps leave."""
    steps = {"losses": np.linspace(0.7, 0.3, 10), "before": np.zeros(100), "after": np.ones(100)}
    return {**steps, "rows_per_second": 50.0, **others}


def test_steps_that_differ_are_no_proof():
    same = compare(record(), record(rows_per_second=90.0), 2)
    assert same["equal"] and "2 ranks train as one process" in in_words(same)
    assert "rows per second: 50 with 1 rank, 90 with 2" in in_words(same)
    losses = record()["losses"] + np.eye(10)[7] * 1e-3
    for other in (record(losses=losses), record(after=np.ones(100) + 0.1)):
        found = compare(record(), other, 2)
        assert not found["equal"] and "2 ranks do NOT train as one process" in in_words(found)


def test_what_is_proven_is_what_is_trained(tmp_path):
    turns = [{"role": role, "content": f"{role} speaks of lamps"} for role in ("user", "assistant")]
    write(tmp_path / "data.jsonl", [{"messages": turns * (1 + row % 3)} for row in range(60)])
    options = RecipeOptions(str(tmp_path / "data.jsonl"), model="small-gpt2", batch_size=4, max_length=64)
    losses = {}
    for packing in (False, True):
        folder = tmp_path / f"packing {packing}"
        take_steps(replace(options, lora=True, packing=packing, output_dir=folder), "causal-lm")
        with np.load(folder / RECORD) as record:
            changed, losses[packing] = record["before"] != record["after"], record["losses"]
        assert 0 < changed.mean() < 0.1, "adapters, and nothing else"
    assert losses[True][0] != losses[False][0], "of more conversations"


def test_the_proof_of_a_finished_run_is_in_its_report(tmp_path):
    write(tmp_path / "data.csv", [{**row, "text": f"{row['label']} film, {row['text']}"} for row in reviews(240)])
    words = ["recipe", "classification", "--nproc", 2]
    options = ["--dataset", "data.csv", "--model", "small-bert", "--batch-size", 8, "--output-dir", "run"]
    run_command(tmp_path, *words, *options, "--epochs", 1, "--peak-tflops", "measured", "--log-dir", "logs")
    results = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    parallel = results["parallel"]
    assert (parallel["rows_per_rank"], parallel["global_batch"]) == (8, 16) and parallel["steps"] == 216 // 16 + 1
    assert parallel["rows_per_second"] > 0 and 0 <= parallel["waiting"] <= 1
    assert parallel["tokens_per_second"] > parallel["rows_per_second"] and 0 < parallel["padding"] < 1
    assert 0 < parallel["mfu"] < 1 and parallel["model_tflops"] > 0
    of_job = json.loads((tmp_path / "logs" / "result.json").read_text(encoding="utf-8"))["training"]
    assert of_job["tokens_per_second"] == pytest.approx(parallel["tokens_per_second"], rel=0.2)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    shown = re.findall(r"<dt>(tokens per second|model TFLOPS|model FLOPS utilization \(MFU\))</dt><dd>(.+?)</dd>", page)
    tokens = parallel["tokens_per_second"]
    assert dict(shown) == {
        "tokens per second": f"{tokens:,.0f}" if tokens >= 1000 else f"{tokens:.4g}",
        "model TFLOPS": f"{parallel['model_tflops']:.4g}",
        "model FLOPS utilization (MFU)": f"{parallel['mfu']:.1%}",
    }
    assert "mindnlp-dp recipe classification --nproc 2 --config run/run.yaml --prove" in page
    said = run_command(tmp_path, *words, "--config", "run/run.yaml", "--prove")
    assert "2 ranks train as one process" in said
    proof = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["proof"]
    assert proof["equal"] and len(proof["losses"][0]) == len(proof["losses"][1]) == 10
    assert proof["losses"][0][0] != proof["losses"][0][-1], "it must have learnt for this to mean anything"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "2 ranks train as one process: losses differ by at most" in page and "--prove" not in page
