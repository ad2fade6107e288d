"""A run that was stopped and resumed ends as one that never stopped: to the last bit."""

import json
import shutil
from pathlib import Path

import pytest

from mindnlp_dp_plugin.checkpoint import store

OF_AN_EARLIER_VERSION = Path(__file__).parent.parent / "checkpoint/data_parallel.of_an_earlier_version.json"


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def stopped_and_resumed(request, in_turn):
    """Every scenario without a stop and from each of its checkpoints."""
    return in_turn("resume_scenarios.py", 2, request.param)


@pytest.mark.parametrize(
    "scenario, saved_at",
    {
        "two_epochs": [2, 4, 6, 8, 10, 12],
        "accumulated": [1, 2, 3, 4, 5],
        "accumulated_saved_at_epoch_ends": [2, 5, 7],
        "evaluated_at_epoch_ends": [1, 2, 3, 4, 5],
        "stops_at_an_epochs_end": [1, 2, 3, 4, 5, 6],
        "by_batch": [2, 4, 6],
        "grouped_by_length": [3, 6, 9, 12],
        "host_random": [1, 2, 3],
        "stops_early": [1, 2, 3],
        "short_epochs": [1, 2, 3, 4, 5, 6],
        "running_mean": [2, 4],
        "sgd": [2, 4],
        "fast_gradient_method": [1, 2, 3],
        "projected_gradient_descent": [1, 2, 3],
    }.items(),
)
def test_resumed_from_any_checkpoint_it_ends_as_if_never_stopped(stopped_and_resumed, scenario, saved_at):
    for ends in json.loads((stopped_and_resumed / f"{scenario}.json").read_text()):
        whole = ends.pop("whole")
        if scenario == "stops_early":  # behind its end, the callback decides again
            assert (whole["step"], ends.pop("checkpoint-4")["step"]) == (4, 5)
        assert sorted(ends) == sorted(f"checkpoint-{step}" for step in saved_at)
        for name, end in ends.items():
            assert end.pop("loss") == pytest.approx(whole["loss"], abs=1e-6), name
            assert end.pop("losses") == pytest.approx(whole["losses"], abs=1e-4), name  # they are rounded
            assert end.pop("dropped") in (whole["dropped"], None), name  # nothing is dropped when no step is left
            assert end == {key: whole[key] for key in end}, name


def test_adapters_are_saved_alone_and_resumed(stopped_and_resumed):
    for ends in json.loads((stopped_and_resumed / "adapter.json").read_text()):
        whole = ends.pop("whole")
        assert whole["last_parameters"] != whole["parameters"], "the last is the best: nothing was loaded at the end"
        assert len(ends) == 3 and "checkpoint-5" in ends, "rotation keeps three"
        for name, end in ends.items():
            assert end.pop("losses") == pytest.approx(whole["losses"], abs=1e-4), name
            assert {**whole, **end, "loss": whole["loss"]} == whole, name
            files = {path.name for path in (stopped_and_resumed / "adapter" / name).iterdir()}
            assert {"adapter_config.json", "adapter_model.ckpt"} < files and "model.safetensors" not in files


def test_dropout_differs_between_ranks_and_another_seed_gives_another_run(stopped_and_resumed):
    def ended(scenario):
        return [ends["whole"] for ends in json.loads((stopped_and_resumed / f"{scenario}.json").read_text())]

    first, second = ended("host_random")
    assert first["dropped"] != second["dropped"]
    assert ended("another_seed")[0]["parameters"] != ended("two_epochs")[0]["parameters"]


@pytest.fixture(scope="module")
def tried(output_of, in_turn, tmp_path_factory):
    """The folder where so many ranks have tried to resume from the checkpoints of two: a function of their number."""
    whole = in_turn("resume_scenarios.py", 2, "mpi") / "two_epochs"
    earlier = tmp_path_factory.mktemp("earlier") / "checkpoint-8"
    shutil.copytree(whole / "checkpoint-8", earlier)
    content = json.loads((earlier / store.RECORD).read_text())
    known = content.keys() & json.loads(OF_AN_EARLIER_VERSION.read_text()).keys()
    (earlier / store.RECORD).write_text(json.dumps({name: content[name] for name in known}))
    assert len(known) < len(content), "this version writes more"

    def on(num_ranks):
        return output_of("resume_mistakes.py", whole, earlier, ranks=num_ranks, backend="mpi")

    return on


def said(folder):
    """What each rank was told."""
    first, *others = [json.loads(path.read_text()) for path in folder.glob("said.rank*.json")]
    assert all(words == first for words in others)
    return first


def test_what_cannot_be_resumed_is_named_and_what_can_be_is_offered(tried):
    told = said(tried(2))
    problems = {
        "missing_weights": "model.safetensors is missing",
        "other_weights": "model.safetensors does not have the contents that were written",
        "half_an_optimizer": "optimizer.ckpt has ",
        "half_a_record": "data_parallel.json is not JSON",
        "no_record": "data_parallel.json is missing",
        "another_format": "data_parallel.json has format 0",
        "nothing": "there is no such folder",
    }
    for name, problem in problems.items():
        assert f"{name}/checkpoint-8': {problem}" in told[name]
        assert f"the newest whole checkpoint is '{tried(2) / name / 'checkpoint-12'}'" in told[name]
    assert "asks for posix.mkdir to be called" in told["code"]
    assert not (tried(2) / "has_run").exists()
    assert told["about_to_be_replaced"] == "ended at step 12, epoch 2.0"
    changes = {
        "other_batch_size": "batch size was 4 and is 5",
        "other_accumulation": "gradient_accumulation_steps was 1 and is 2",
        "other_seed": "seed was 42 and is 7",
        "other_grouping": "group_by_length was False and is True",
        "other_rows": "number of rows was 48 and is 40",
    }
    for name, change in changes.items():
        assert f"{change}. It was saved in the middle of epoch 0" in told[name]
    assert (
        "a batch size and accumulation whose product is 4, so that a step still has 8 rows (a source that is read in "
        "order needs the old batch size, group_by_length the old ranks x batch size)" in told["other_batch_size"]
    )


def test_an_accumulation_that_would_go_on_otherwise_is_refused_with_a_way_out(tried):
    told = said(tried(2))["short_epochs"]
    for step in ("1", "2"):
        assert f"short/checkpoint-{step}': an epoch has 3 batches a rank, no more than" in told[step]
    assert told["3"] == told["anew"] == "ended at step 3, epoch 2.0"


def test_each_file_is_read_by_one_rank_and_one_of_an_earlier_version_is_resumed_from(tried, in_turn):
    whole = in_turn("resume_scenarios.py", 2, "mpi")
    (first, of_earlier), (second, _) = (json.loads((tried(2) / f"read.rank{rank}.json").read_text()) for rank in (0, 1))
    files = json.loads((whole / "two_epochs/checkpoint-4" / store.RECORD).read_text())["files"]
    assert first["hashed"] == sum(files.values()) and second["hashed"] == 0
    loaded = second["opened"]
    assert {name: first["opened"][name] - loaded.get(name, 0) for name in files} == {
        **dict.fromkeys(files, 1),
        store.STATE: 2,  # it is JSON, which is parsed, too
    }
    expected = json.loads((whole / "two_epochs.json").read_text())[0]["whole"]
    assert of_earlier["parameters"] == expected["parameters"]


@pytest.mark.slow
def test_another_number_of_ranks_goes_on_from_the_end_of_an_epoch(tried):
    told = said(tried(3))
    assert "world_size was 2 and is 3" in told["middle_of_an_epoch"]
    assert "a number of ranks that divides the 8 rows of a step (1, 2, 4, 8)" in told["middle_of_an_epoch"]
    # 48 rows on 3 ranks in batches of 4: the epoch that was left takes 4 steps.
    assert told["end_of_an_epoch"] == "ended at step 10, epoch 2.0"


def test_an_adapter_of_two_ranks_is_resumed_by_one_process(tried, in_turn):
    told, of_two = said(tried(1)), in_turn("resume_scenarios.py", 2, "mpi")
    # Both runs end by loading the same best adapter, one from the middle on.
    assert told["alone"] == json.loads((of_two / "adapter.json").read_text())[0]["whole"]["parameters"]
    assert "world_size was 2 and is 1. It was saved in the middle of epoch 0" in told["other_batch"]
