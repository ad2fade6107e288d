"""A profile says where a step goes on each rank, and leaves training as it is."""

import json
import re

import numpy as np
import pytest

from mindnlp_dp_plugin.trainers.observe.profile_page import BUCKETS, PHASES
from tests.harness import run_ranks_successfully
from tests.programs import profiled

SKIPPED, PROFILED, ALL = 2, 3, 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What each run left, where its profile is, and what the job showed."""
    output = tmp_path_factory.mktemp("profiled")
    wanted = f"{SKIPPED},{PROFILED}"
    names = {
        "hidden": f"2,3:{ALL}:en",
        "two": f"{wanted}:{ALL}:en",
        "plain": f":{ALL}:en",
        "short": f"{wanted}:{SKIPPED + 2}:zh",
    }
    words = [f"{name}:{settings}" for name, settings in names.items()]
    finished = run_ranks_successfully("profiled.py", output, *words, ranks=2, backend="mpi", log_dir=output / "logs")

    def result_of(name):
        left = output / name / "left.json"
        return left.exists() and json.loads(left.read_text()), output / name / "trainer" / "profile", finished.stdout

    return {name: result_of(name) for name in names}


@pytest.fixture(scope="module")
def profile(runs):
    return runs["two"]


def phases_in(folder):
    found = json.loads((folder / "phases.json").read_text())
    assert all(list(of_rank) == list(PHASES) for of_rank in found["ranks"])
    return found["steps"], found["ranks"]


def test_phases_are_where_the_time_goes(profile):
    left, folder, _ = profile
    num_steps, (first, second) = phases_in(folder)
    assert num_steps == PROFILED
    assert first["data"] == pytest.approx(profiled.DATA_S, rel=0.5) == second["data"]
    late = second["forward"] - first["forward"]
    assert late == pytest.approx(profiled.FORWARD_S, rel=0.5)
    assert first["wait for ranks"] == pytest.approx(late, abs=0.5 * profiled.FORWARD_S), "rank 0 waits for rank 1"
    assert second["wait for ranks"] < 0.5 * first["wait for ranks"]
    seconds = np.diff(left["ends"])[SKIPPED - 1 :][: PROFILED - 1]  # behind the last the page is drawn
    assert sum(first.values()) == pytest.approx(seconds.mean(), rel=0.25), "nothing is left out, and nothing twice"


def test_the_trace_beside_the_page_holds_the_same_steps_of_every_rank(profile):
    _, folder, _ = profile
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    num_steps, ranks = phases_in(folder)
    names = {event["pid"]: event["args"]["name"] for event in trace if event["ph"] == "M"}
    assert names == {0: "rank 0", 1: "rank 1"}
    page = (folder / "profile.html").read_text(encoding="utf-8")
    for rank, of_rank in enumerate(ranks):
        events = [event for event in trace if event["ph"] == "X" and event["pid"] == rank]
        steps = sorted((event for event in events if event["tid"] == "step"), key=lambda event: event["ts"])
        assert [event["name"] for event in steps].count("optimizer") == num_steps
        for before, after in zip(steps, steps[1:]):
            assert before["ts"] + before["dur"] == pytest.approx(after["ts"], abs=1), "one phase ends as another begins"
        for name, seconds in of_rank.items():
            in_trace = sum(event["dur"] for event in steps if event["name"] == name) / 1e6 / num_steps
            assert in_trace == pytest.approx(seconds)
            assert f"<td>{seconds * 1e3:.2f}</td>" in page
        sums = [event for event in events if event["tid"] == "all-reduce"]
        assert sums and all(each["ts"] >= 0 and each["ts"] + each["dur"] <= end_of(steps) for each in sums)
        assert {each["name"] for each in sums} == {f"{each['args']['bytes'] / 2**20:.2f} MB" for each in sums}


def end_of(events):
    return max(event["ts"] + event["dur"] for event in events)


def test_the_page_draws_every_rank_and_phase(profile):
    _, folder, shown = profile
    assert f"where the time of steps {SKIPPED + 1} to {SKIPPED + PROFILED} goes: {folder / 'profile.html'}" in shown
    page = (folder / "profile.html").read_text(encoding="utf-8")
    _, ranks = phases_in(folder)
    step = sum(ranks[1].values())
    headline = f"A step takes {step * 1e3:.4g} ms. On rank 1, which has most to do, forward is"
    assert f"{headline} {ranks[1]['forward'] / step:.0%} of it." in page
    assert "Rank 1 takes" in page and "times as long as rank 0 for its own work" in page
    bars, timeline = page.split("<svg")[1:]
    for name, colour in PHASES.items():
        lengths = widths(bars, colour)
        drawn = [length / sum(map(sum, (widths(bars, each) for each in PHASES.values()))) for length in lengths]
        seconds = [of_rank[name] / sum(map(sum, (each.values() for each in ranks))) for of_rank in ranks]
        assert drawn == pytest.approx(seconds, abs=1e-3), name
        assert timeline.count(f'style="fill: {colour}') >= 2 or name == "clip"
    assert f">{ranks[1]['forward'] / step:.0%}<" in bars and f'style="fill: {BUCKETS}' in timeline
    assert "<script" not in page


def widths(svg, colour):
    """Of the shapes of a colour in what matplotlib has drawn."""
    shapes = re.findall(rf'<path d="([^"]*)"[^>]*style="fill: {colour}', svg)
    across = [[float(x) for x in re.findall(r"[ML] ([\d.]+)", shape)] for shape in shapes]
    return [max(xs) - min(xs) for xs in across]


def test_mindspores_profiler_leaves_its_files_of_each_rank(profile):
    _, folder, _ = profile
    for rank in range(2):
        (view,) = folder.glob(f"rank{rank}/*/ASCEND_PROFILER_OUTPUT/trace_view.json")
        assert json.loads(view.read_text())


def test_training_is_the_same_to_the_last_bit(runs):
    (left, *_), (plain, folder, _) = runs["two"], runs["plain"]
    assert left["weights"] == plain["weights"] and not folder.exists()


def test_what_training_ends_before_is_a_profile_of_fewer_steps_in_chinese(runs):
    _, folder, _ = runs["short"]
    num_steps, ranks = phases_in(folder)
    assert num_steps == 2 and len(ranks) == 2
    page = (folder / "profile.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in page and "前向" in page and not re.search(">[a-z]+ that is not hidden<", page)


def test_one_process_has_a_profile_too(tmp_path):
    job = dict(ranks=1, backend="auto", log_dir=tmp_path / "logs")
    run_ranks_successfully("profiled.py", tmp_path, "alone:0,2:5:en", **job)
    folder = tmp_path / "alone" / "trainer" / "profile"
    num_steps, (only,) = phases_in(folder)
    assert num_steps == 2 and only["data"] > 0.5 * profiled.DATA_S and only["backward"] > 0
    assert list(folder.glob("rank0/*"))


def test_what_draws_the_page_is_missed_before_training_begins(runs):
    _, folder, _ = runs["hidden"]
    assert not (folder.parents[1] / "left.json").exists()
    for rank in range(2):
        said = (folder.parents[1] / f"said.rank{rank}.txt").read_text()
        assert said == "profile needs matplotlib (hidden): pip install 'mindnlp-dp-plugin[tracking]'."
