"""A profile says where a step goes on each rank, and leaves training as it is."""

import json
import re

import numpy as np
import pytest

from mindnlp_dp_plugin.trainers.observe.profile_page import PHASES
from tests.harness import run_ranks_successfully
from tests.programs import profiled

SKIPPED, PROFILED, ALL = 2, 3, 10


def train(output, ranks=2, profile=f"{SKIPPED},{PROFILED}", max_steps=ALL, **variables):
    """What a run left, and where its profile is."""
    output.mkdir(exist_ok=True)
    variables |= {"MINDNLP_DP_PROFILE": profile} if profile else {}
    backend = "mpi" if ranks > 1 else "auto"
    finished = run_ranks_successfully(
        "profiled.py", output, max_steps, ranks=ranks, backend=backend, log_dir=output / "logs", env=variables
    )
    left = json.loads((output / "left.json").read_text())
    return left, output / "trainer" / "profile", finished.stdout


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return train(tmp_path_factory.mktemp("profiled") / "two")


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
    seconds = np.diff(left["ends"])[SKIPPED - 1 :][:PROFILED]
    assert sum(first.values()) == pytest.approx(seconds.mean(), rel=0.25), "nothing is left out, and nothing twice"


def test_the_page_draws_every_rank_and_phase(profile):
    _, folder, shown = profile
    assert f"where steps {SKIPPED + 1} to {SKIPPED + PROFILED} go: {folder / 'profile.html'}" in shown
    page = (folder / "profile.html").read_text(encoding="utf-8")
    _, ranks = phases_in(folder)
    step = sum(ranks[1].values())
    headline = f"A step takes {step * 1e3:.4g} ms. On rank 1, which has most to do, forward is"
    assert f"{headline} {ranks[1]['forward'] / step:.0%} of it." in page
    assert "Rank 1 takes" in page and "times as long as rank 0 for its own work" in page
    widths = [float(width) for width in re.findall(r'<i style="width:([\d.]+)%', page)]
    assert len(widths) == 2 * len(PHASES) and sum(widths) == pytest.approx(200, rel=0.2)
    assert page.count("<rect") >= 2 * (len(PHASES) - 1) and "<script" not in page


def test_mindspores_profiler_leaves_its_files_of_each_rank(profile):
    _, folder, _ = profile
    for rank in range(2):
        (view,) = folder.glob(f"rank{rank}/*/ASCEND_PROFILER_OUTPUT/trace_view.json")
        assert json.loads(view.read_text())


def test_training_is_the_same_to_the_last_bit(profile, tmp_path):
    left, _, _ = profile
    plain, folder, _ = train(tmp_path, profile=None)
    assert left["weights"] == plain["weights"] and not folder.exists()


def test_what_training_ends_before_is_a_profile_of_fewer_steps_in_chinese(tmp_path):
    _, folder, _ = train(tmp_path, max_steps=SKIPPED + 2, MINDNLP_DP_LANG="zh")
    num_steps, ranks = phases_in(folder)
    assert num_steps == 2 and len(ranks) == 2
    page = (folder / "profile.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in page and "前向" in page and not re.search(">[a-z]+ that is not hidden<", page)


def test_one_process_has_a_profile_too(tmp_path):
    _, folder, _ = train(tmp_path, ranks=1, profile="0,2", max_steps=5)
    num_steps, (only,) = phases_in(folder)
    assert num_steps == 2 and only["data"] > 0.5 * profiled.DATA_S and only["backward"] > 0
    assert list(folder.glob("rank0/*"))
