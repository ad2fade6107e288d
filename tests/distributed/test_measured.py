"""Tokens and model FLOPS per second, and the utilisation of the devices: of all ranks, without padding."""

import json
import re

import numpy as np
import pytest

from tests.distributed.test_tracking import read
from tests.harness import run_ranks_successfully

PEAK = 0.5


@pytest.fixture(scope="module", params=[1, 2], ids=["one_process", "2_ranks"])
def measured(request, tmp_path_factory):
    """Number of ranks, what was expected, what TensorBoard has, the launcher's result, and what it showed."""
    output = tmp_path_factory.mktemp("measured")
    finished = run_ranks_successfully(
        "measured.py",
        output,
        ranks=request.param,
        backend="mpi" if request.param > 1 else "auto",
        log_dir=output / "logs",
        env={"MINDNLP_DP_PEAK_TFLOPS": str(PEAK)},
    )
    expected = json.loads((output / "expected.json").read_text())
    result = json.loads((output / "logs/result.json").read_text())
    return request.param, expected, read(output / "tensorboard")[0], result, finished.stdout


def test_each_step_counts_the_tokens_and_flops_of_all_ranks_without_padding(measured):
    num_ranks, expected, series, *_ = measured
    tokens, flops = (np.array(list(series[f"train/{name}"].values())) for name in ("tokens_per_second", "model_tflops"))
    # Both are over the same seconds, which are known to a few percent only.
    assert flops / tokens == pytest.approx(np.array(expected["flops"]) / expected["tokens"] / 1e12, rel=1e-5)
    assert (tokens * expected["seconds"])[1:] == pytest.approx(expected["tokens"][1:], rel=0.2)
    assert list(series["train/mfu"].values()) == pytest.approx(flops / (PEAK * num_ranks), rel=1e-5)


def test_the_summary_and_result_json_have_them_of_the_whole_training(measured):
    num_ranks, expected, _, result, shown = measured
    if num_ranks == 1:
        assert result["training"] is None, "one process trains by MindNLP's own Trainer, which has no summary"
        return
    found = result["training"]
    assert (found["ranks"], found["steps"]) == (2, 4)
    assert found["tokens_per_second"] * found["seconds"] == pytest.approx(sum(expected["tokens"]))
    assert found["model_tflops"] * found["seconds"] * 1e12 == pytest.approx(sum(expected["flops"]))
    assert found["mfu"] == pytest.approx(found["model_tflops"] / (2 * PEAK))
    tokens, each, padding = re.search(r"tokens per second: (\S+), per rank (\S+); padding \((\S+)%\)", shown).groups()
    assert (
        float(tokens) == pytest.approx(found["tokens_per_second"], rel=1e-3) == pytest.approx(2 * float(each), rel=1e-3)
    )
    assert float(padding) == pytest.approx(100 * expected["padding"], abs=0.06)
    assert f"MFU {found['mfu']:.1%} of {PEAK} per rank" in shown
