"""Which checkpoints of a folder are a training's own: told by what they say, whatever the script has skipped."""

from dataclasses import replace

import pytest

from mindnlp_dp_plugin.checkpoint.training import Kinship, Training, digest_of
from tests.checkpoint.records import record

OWN, ANOTHERS, UNKNOWN = Kinship.OWN, Kinship.ANOTHERS, Kinship.UNKNOWN
TRAINED = {"max_steps": 4, "num_train_epochs": 3.0, "learning_rate": 1e-3, "model": "a", "train_dataset": "b"}
LONGER = {**TRAINED, "max_steps": 8}
OTHER = {**TRAINED, "learning_rate": 5e-4}
THIS = Training("this", 1, TRAINED, "first weights", [], set())


def saved(**changes):
    """A checkpoint of the first training in the folder."""
    written = dict(training="that", train_call=1, trained=TRAINED, began_with="first weights", before=[])
    return record(**{**written, **changes})


SECOND = dict(train_call=2, before=[digest_of(OTHER)], began_with="last weights")


@pytest.mark.parametrize(
    "changes, after_a_restart, with_resume",
    [
        # of the same training, as the script does what it did before
        (dict(), OWN, OWN),
        (dict(began_with="random weights"), OWN, OWN),
        (dict(ended_with="last weights"), OWN, OWN),
        # with other settings: a restart has the same ones, but that they may depend on the number of ranks
        (dict(trained=LONGER, ended_with="last weights"), ANOTHERS, OWN),
        (dict(trained=OTHER, ended_with="last weights"), ANOTHERS, UNKNOWN),
        (dict(trained=OTHER), OWN, OWN),
        # a stage before, which the script has skipped this time
        (dict(ended_with="first weights", began_with="others"), ANOTHERS, ANOTHERS),
        (dict(ended_with="first weights", began_with="others", trained=OTHER), ANOTHERS, ANOTHERS),
        # this training, before which the script has skipped a stage this time
        (dict(SECOND, began_with="first weights"), OWN, OWN),
        (dict(SECOND, began_with="random weights"), OWN, OWN),
        (dict(SECOND, trained=OTHER), ANOTHERS, UNKNOWN),
        # a later stage, with the same settings or others
        (dict(SECOND, before=[digest_of(TRAINED)]), ANOTHERS, ANOTHERS),
        (dict(SECOND, before=[digest_of(TRAINED)], trained=LONGER), ANOTHERS, ANOTHERS),
    ],
)
def test_a_checkpoint_is_known_by_what_it_says(changes, after_a_restart, with_resume):
    assert THIS.kinship(saved(**changes), is_restart=True)[0] is after_a_restart
    assert THIS.kinship(saved(**changes), is_restart=False)[0] is with_resume


def test_what_this_process_trained_before_is_anothers():
    assert replace(THIS, number=2, done={"that"}).kinship(saved(), is_restart=True)[0] is ANOTHERS


def test_one_that_goes_on_stays_the_training_it_was():
    goes_on = replace(THIS, began_with="random weights")
    goes_on.adopt(saved())
    assert (goes_on.id, goes_on.began_with) == ("that", "first weights")


def test_a_checkpoint_of_an_earlier_version_is_known_by_its_call_alone():
    assert THIS.kinship(record(train_call=1), is_restart=False)[0] is OWN
    assert THIS.kinship(record(train_call=2), is_restart=False)[0] is UNKNOWN


def test_what_does_not_fit_is_named():
    before = {**OTHER, "model": "another"}
    _, reason = THIS.kinship(saved(trained=before, ended_with="last weights"), is_restart=False)
    assert reason == "learning_rate was 0.0005 and is 0.001, the model has changed"
