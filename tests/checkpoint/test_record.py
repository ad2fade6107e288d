"""The record of a checkpoint: what is written, and what earlier versions have written."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from mindnlp_dp_plugin.checkpoint.record import Record, Settings
from tests.checkpoint.records import SETTINGS, record

# Written by commit d25a097 on 2 ranks; the generators' states are cut short.
EARLIER = json.loads(Path(__file__).with_name("data_parallel.of_an_earlier_version.json").read_text())
SINCE = {"epoch_end_is_due": False, "pending_loss": 0.0, "last_logged_step": None}


def test_what_is_written_is_read():
    written = record(job="a", train_call=2, loss_scaling={"scale": 2.0}, last_logged_step=0)
    assert Record.from_json(json.loads(json.dumps(written.as_json()))) == written


def test_the_keys_on_disk_stay():
    names = {"world_size", "batch size", "gradient_accumulation_steps", "seed", "number of rows", "group_by_length"}
    assert set(record().as_json()["settings"]) == {*names, "elastic_determinism"} and names == set(EARLIER["settings"])
    assert set(EARLIER) - {"format", "files", "digests"} <= {field.name for field in fields(Record)}


def test_a_file_of_an_earlier_version_is_read_with_what_it_lacks_filled_in():
    assert not set(SINCE) & set(EARLIER) and Record.missing_in(EARLIER) == []
    read = Record.from_json(EARLIER)
    assert read.settings == SETTINGS and read.position.micro_steps == 4
    assert (read.epoch_end_is_due, read.pending_loss, read.last_logged_step) == (False, 0, None)


def test_another_version_may_write_more():
    assert Record.from_json({**record().as_json(), "gradient_order": [1, 0], "unheard_of": 1}) == record()


@pytest.mark.parametrize("settings", [None, 5, [], {"seed": 1}])
def test_what_every_version_writes_is_missed(settings):
    content = {**record().as_json(), "settings": settings}
    del content["patience"]
    assert Record.missing_in(content)[0] == "patience" and len(Record.missing_in(content)) > 1


def test_only_what_the_first_version_wrote_is_required():
    required = {field.name for field in fields(Record) if field.default is MISSING}
    assert required <= set(EARLIER)
    assert [field.name for field in fields(Settings) if field.default is not MISSING] == ["elastic_determinism"]
