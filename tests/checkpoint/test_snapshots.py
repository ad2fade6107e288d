"""What a launcher makes of the snapshots in its keeping."""

import pytest

from mindnlp_dp_plugin.checkpoint import snapshots, store
from tests.checkpoint.records import record


def write_snapshot(kept, home, step, on_each_node):
    folder = kept / snapshots.FOLDER
    with store.atomic_save(folder) as scratch:
        written = scratch / f"checkpoint-{step}"
        written.mkdir()
        (written / store.STATE).write_text("{}")
        store.publish(
            written, folder, record(job="a", train_call=0, home=str(home), save_on_each_node=on_each_node).as_json()
        )
    return folder / written.name


@pytest.mark.parametrize("on_each_node, is_damaged, step", [(False, False, 2), (True, False, 1), (False, True, 1)])
def test_the_newest_that_is_whole_on_all_nodes_is_taken(tmp_path, on_each_node, is_damaged, step):
    kept, home = tmp_path / "kept", tmp_path / "home"
    _, newest = (write_snapshot(kept, home, number, on_each_node) for number in (1, 2))
    if is_damaged:
        (newest / store.STATE).write_text("{ }")
    assert snapshots.make_checkpoint(kept, leads=True) == home / f"checkpoint-{step}"
    assert store.problem_of(home / f"checkpoint-{step}") is None


def test_without_a_snapshot_no_checkpoint_is_made(tmp_path):
    assert snapshots.make_checkpoint(tmp_path, leads=True) is None
