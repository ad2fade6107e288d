"""TensorBoard files hold what the Trainer logged and what was measured; loggers know their rank; a summary ends it.

Tokens and model FLOPS per second, and the utilisation of the devices, are those of all ranks, without padding.
"""

import json
import re
import socket
from collections import defaultdict
from dataclasses import asdict

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mindnlp_dp_plugin import DataParallelConfig
from tests.harness import run_ranks_successfully

PEAK_TFLOPS = 0.5
MEASURED = {
    f"train/{name}"
    for name in ("grad_norm", "samples_per_second", "communication_wait_seconds", "tokens_per_second", "model_tflops")
}


@pytest.fixture(scope="module", params=[1, 2], ids=["one_process", "2_ranks"])
def tracked(request, tmp_path_factory):
    """Number of ranks, where they left their results, and what the launcher showed."""
    output = tmp_path_factory.mktemp("tracked")
    backend = "mpi" if request.param > 1 else "auto"
    environ = {"MINDNLP_DP_CHECK_REPLICAS_EVERY": "1"}  # no false alarm
    job = dict(ranks=request.param, backend=backend, log_dir=output / "logs", env=environ)
    finished = run_ranks_successfully("tracking.py", output, PEAK_TFLOPS, **job)
    return request.param, output, finished.stdout


def read(folder):
    """``{tag: {step: value}}`` and ``{tag: text}``, as tensorboard sees a folder."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    series = {}
    for tag in events.Tags()["scalars"]:
        points = [(event.step, event.value) for event in events.Scalars(tag)]
        series[tag] = dict(points)
        assert len(points) == len(series[tag]), f"{tag}: a step is there twice"
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    return series, texts


def logged(history):
    """``{tag: {step: value}}`` of all numbers the Trainer logged, the first for each step."""
    series = defaultdict(dict)
    for entry in history:
        step = entry.pop("step")
        epoch = entry.pop("epoch")
        if "loss" in entry:
            series["train/epoch"][step] = epoch
        for name, value in entry.items():
            prefix = name.split("_")[0]
            tag = f"{prefix}/{name[5:]}" if prefix in ("eval", "test") else f"train/{name}"
            if not isinstance(value, list):
                series[tag].setdefault(step, value)
    return series


def left(output, run):
    return json.loads((output / f"{run}.json").read_text())


def test_series_equal_what_the_trainer_logged(tracked):
    _, output, _ = tracked
    series, _ = read(output / "whole_of_rank0")
    expected = logged(left(output, "whole")["history"])
    assert series.keys() == expected.keys() | MEASURED
    assert list(series["train/loss"]) == [2, 4, 6] and list(series["eval/loss"]) == [3, 6]
    assert series["eval/rows"] == {3: 20, 6: 20} and list(series["test/loss"]) == [6]
    for tag, points in expected.items():
        assert series[tag] == pytest.approx(points, rel=1e-6), tag


def test_gradient_norm_is_that_of_the_averaged_gradients(tracked):
    _, output, _ = tracked
    series, _ = read(output / "whole_of_rank0")
    for _, norms in left(output, "whole")["of_ranks"]:
        expected = {step: norms[str(step)] for step in (2, 4, 6)}
        assert series["train/grad_norm"] == pytest.approx(expected, rel=1e-5)
    assert min(expected.values()) > 0.1, "it is the norm before clipping"


def test_throughput_leaves_out_evaluations_and_saves(tracked):
    num_ranks, output, _ = tracked
    series, _ = read(output / "whole_of_rank0")
    seconds = left(output, "whole")["seconds"]
    rows = 2 * 2 * 8 * num_ranks  # steps, micro-steps, rows of a rank
    expected = {step: rows / (seconds[str(step)] - seconds[str(step - 2)]) for step in (4, 6)}
    rates = series["train/samples_per_second"]
    assert list(rates) == [2, 4, 6]
    assert {step: rates[step] for step in (4, 6)} == pytest.approx(expected, rel=0.1)


def test_waiting_is_the_mean_over_steps_and_ranks(tracked):
    num_ranks, output, _ = tracked
    series, _ = read(output / "whole_of_rank0")
    waits = series["train/communication_wait_seconds"]
    if num_ranks == 1:
        assert waits == {2: 0, 4: 0, 6: 0}
        return
    of_ranks = [dict(waited) for waited, _ in left(output, "whole")["of_ranks"]]
    for step in (4, 6):
        expected = sum(waited[str(step)] - waited[str(step - 2)] for waited in of_ranks) / len(of_ranks) / 2
        assert expected > 0.02, "rank 1 is late by 0.2 s in each step, and only rank 0 waits for it"
        assert waits[step] == pytest.approx(expected, rel=0.1, abs=0.01)


def test_arguments_are_noted(tracked):
    num_ranks, output, _ = tracked
    _, texts = read(output / "whole_of_rank0")
    assert json.loads(texts["args/text_summary"]) == left(output, "whole")["args"]
    if num_ranks > 1:
        config = DataParallelConfig(backend="mpi", check_replicas_every=1)
        assert json.loads(texts["data_parallel_config/text_summary"]) == asdict(config)


def test_a_run_that_raised_and_was_resumed_is_one_series(tracked):
    num_ranks, output, _ = tracked
    result = left(output, "resumed")
    runs = sorted(folder.name for folder in (output / "resumed" / "runs").iterdir())
    assert runs == ["first_of_rank0"], "the resumed run goes on in the folder of the first"
    series, _ = read(output / "resumed" / "runs" / "first_of_rank0")
    expected = logged(result["history"])
    assert list(series["train/loss"]) == [1, 2, 3, 4, 5, 6]
    assert series["train/loss"] == pytest.approx(expected["train/loss"], rel=1e-6)
    assert "train/grad_norm" not in series, "nothing was clipped"
    assert result["clipping_is_stock"] or num_ranks == 1
    assert result["left_open"] == [] or num_ranks == 1, "one process closes the file when it ends"


def test_replicas_write_no_file(tracked):
    _, output, _ = tracked
    folders = {file.parent.name for file in output.rglob("*tfevents*")}
    assert folders == {"whole_of_rank0", "first_of_rank0", "measured_of_rank0"}


def test_loggers_know_their_rank_and_level(tracked):
    num_ranks, output, _ = tracked
    logs = [(output / "logs" / f"rank_{rank}.log").read_text() for rank in range(num_ranks)]
    said = [[line[7:] for line in log.splitlines() if line.startswith("SCRIPT ")] for log in logs]
    levels = ("info", "warning", "error")
    assert said[0] == [f"{when} the Trainer: {level}" for when in ("before", "after") for level in levels]
    for rank in range(1, num_ranks):
        loud_enough = ["before the Trainer: warning", "before the Trainer: error", "after the Trainer: error"]
        assert said[rank] == [f"[rank {rank}] {words}" for words in loud_enough]
    running = ["***** Running training *****" in log for log in logs]
    assert running == [True] + [False] * (num_ranks - 1), "log_level='info' is for rank 0"


def test_a_summary_ends_training_on_ranks(tracked):
    num_ranks, output, shown = tracked
    lines = [index for index, line in enumerate(shown.splitlines()) if line.startswith("Trained on ")]
    if num_ranks == 1:
        assert lines == []
        return
    assert len(lines) == 2, "log_level='error' wants none of the run that was resumed"
    summary = shown.splitlines()[lines[0] : lines[0] + 6]
    assert "Trained on 2 ranks: 6 steps of 32 rows (global batch) in " in summary[0]
    seconds_per_step = float(summary[0].split(" s, ")[1].split()[0])
    rate, of_a_rank = (float(words.split()[-1]) for words in summary[1].split(", per rank"))
    assert rate == pytest.approx(32 / seconds_per_step, rel=0.01) == pytest.approx(2 * of_a_rank, rel=0.01)
    tokens, per_rank, padding = re.match(r"\s*tokens per second: (\S+), per rank (\S+); (.*)", summary[2]).groups()
    assert float(tokens) == pytest.approx(12 * rate, rel=1e-3) == pytest.approx(2 * float(per_rank), rel=1e-3)
    assert padding == "padding counted, as there is no attention_mask"
    waiting = [float(share) for share in summary[4].split(": ")[1].replace("%", "").split(", ")]
    waited = [list(waits.values())[-1] for waits, _ in left(output, "whole")["of_ranks"]]
    expected = [100 * seconds / (6 * seconds_per_step) for seconds in waited]
    assert waiting == pytest.approx(expected, rel=0.1, abs=2)
    memory = [float(peak) for peak in summary[5].split(": ")[1].split(", ")]
    assert len(memory) == 2 and all(200 < peak < 10_000 for peak in memory)


def test_each_step_counts_the_tokens_and_flops_of_all_ranks_without_padding(tracked):
    num_ranks, output, _ = tracked
    (series, _), expected = read(output / "measured_of_rank0"), left(output, "measured")["expected"]
    tokens, flops = (np.array(list(series[f"train/{name}"].values())) for name in ("tokens_per_second", "model_tflops"))
    # Both are over the same seconds, which are known to a few percent only.
    assert flops / tokens == pytest.approx(np.array(expected["flops"]) / expected["tokens"] / 1e12, rel=1e-5)
    assert (tokens * expected["seconds"])[1:] == pytest.approx(expected["tokens"][1:], rel=0.2)
    assert list(series["train/mfu"].values()) == pytest.approx(flops / (PEAK_TFLOPS * num_ranks), rel=1e-5)


def test_the_summary_and_result_json_have_them_of_the_whole_training(tracked):
    num_ranks, output, shown = tracked
    result, expected = json.loads((output / "logs/result.json").read_text()), left(output, "measured")["expected"]
    if num_ranks == 1:
        assert result["training"] is None, "one process trains by MindNLP's own Trainer, which has no summary"
        return
    found = result["training"]
    assert (found["ranks"], found["steps"]) == (2, 4)
    assert found["tokens_per_second"] * found["seconds"] == pytest.approx(sum(expected["tokens"]))
    assert found["model_tflops"] * found["seconds"] * 1e12 == pytest.approx(sum(expected["flops"]))
    assert found["mfu"] == pytest.approx(found["model_tflops"] / (2 * PEAK_TFLOPS))
    tokens, each, padding = re.search(r"tokens per second: (\S+), per rank (\S+); padding \((\S+)%\)", shown).groups()
    assert (
        float(tokens) == pytest.approx(found["tokens_per_second"], rel=1e-3) == pytest.approx(2 * float(each), rel=1e-3)
    )
    assert float(padding) == pytest.approx(100 * expected["padding"], abs=0.06)
    assert f"MFU {found['mfu']:.1%} of {PEAK_TFLOPS} per rank" in shown


@pytest.mark.slow
def test_a_slow_rank_is_named_once_and_not_at_once(tmp_path):
    finished = run_ranks_successfully("paced.py", ranks=2, backend="mpi", log_dir=tmp_path / "logs")
    log = (tmp_path / "logs/rank_0.log").read_text()
    assert log.count(f": rank 1 on {socket.gethostname()} takes") == 1
    assert f"Steps 1 to 150: rank 1 on {socket.gethostname()} takes" in log
    assert "All wait for it" not in (tmp_path / "logs/rank_1.log").read_text(), "rank 0 says it"
    line = "slower than the median rank, in windows of 50 steps: "
    assert re.search(rf"{line}.*rank 1 on {socket.gethostname()} in [45] of 5", finished.stdout)
