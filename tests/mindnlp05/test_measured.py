"""What is measured of Hugging Face's Trainer on ranks, and habits of it: as with MindNLP 0.4, or refused by name."""

import json

import pytest

from tests.harness import run_ranks
from tests.mindnlp05.conftest import PROGRAMS

PEAK, PROFILED = 0.5, 2


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What both ranks have noted, the launcher's result, and the folder."""
    output = tmp_path_factory.mktemp("measured")
    settings = {"PEAK_TFLOPS": PEAK, "PROFILE": f"1,{PROFILED}"}
    finished = run_ranks(
        PROGRAMS / "measured.py",
        output,
        ranks=2,
        backend="mpi",
        log_dir=output / "logs",
        env={f"MINDNLP_DP_{name}": str(value) for name, value in settings.items()},
    )
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    ranks = [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(2)]
    return ranks, json.loads((output / "logs/result.json").read_text())["training"], output


def test_tokens_flops_and_mfu_are_of_all_ranks(measured):
    (noted, _), training, _ = measured
    assert training["tokens_per_second"] * training["seconds"] == pytest.approx(noted["tokens"])
    assert training["model_tflops"] * training["seconds"] * 1e12 == pytest.approx(noted["flops"])
    assert training["mfu"] == pytest.approx(training["model_tflops"] / (2 * PEAK))


def test_a_profile_and_a_trace_are_of_both_ranks(measured):
    *_, output = measured
    folder = output / "training/profile"
    phases = json.loads((folder / "phases.json").read_text())
    assert phases["steps"] == PROFILED and len(phases["ranks"]) == 2
    for seconds in phases["ranks"]:
        assert min(seconds[name] for name in ("data", "forward", "backward", "optimizer")) > 0
    assert "<svg" in (folder / "profile.html").read_text(encoding="utf-8")
    assert all(list(folder.glob(f"rank{rank}/*/ASCEND_PROFILER_OUTPUT/trace_view.json")) for rank in range(2))
    assert {event["pid"] for event in json.loads((folder / "trace.json").read_text())["traceEvents"]} == {0, 1}


def test_habits_of_the_trainer_on_ranks(measured):
    ranks, *_ = measured
    for noted in ranks:
        assert noted["seen"] == noted["tokens"]
        assert noted["compile"].startswith("torch_compile=True: MindNLP 0.5 computes no gradients with it")
        assert noted["noisy"][0] == noted["noisy"][1] != noted["plain"] != noted["smoothed"]
    assert all(ranks[0][name] == ranks[1][name] for name in ("noisy", "plain", "smoothed"))
