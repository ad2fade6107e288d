"""What a training is: by what its checkpoints are told from those of others in the same folder.

A script may train in stages or folds, skip those that are done, and train a probe within a callback. So which call of
``train()`` this is in its process says little; what is trained, on which rows, and from which weights it began, says
more. All that is fixed when ``train()`` begins, and written into each checkpoint.
"""

import json
import os
import uuid
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import Any

import xxhash

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import JOB
from mindnlp_dp_plugin.language import Message, tr

LENGTH = {"num_train_epochs", "max_steps"}
ARGUMENTS = (
    *sorted(LENGTH),
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "warmup_ratio",
    "optim",
    "weight_decay",
    "max_grad_norm",
    "label_smoothing_factor",
    "seed",
)
SHOWN = {"model": Message("the model"), "train_dataset": "train_dataset"}

_begun: dict[str, list["Training"]] = defaultdict(list)  # of this process, by output_dir


class Kinship(Enum):
    """What a checkpoint is to a training."""

    OWN = "own"
    ANOTHERS = "another's"
    UNKNOWN = "unknown"


@dataclass
class Training:
    """A call of ``train()``, or several that go on from each other's checkpoints.

    Attributes:
        id: A name that no other training has.
        number: Which ``train()`` of this process with this ``output_dir`` it is, from 1.
        trained: What is trained, by name: arguments, and digests of the model's structure and of the rows.
        began_with: A digest of the weights with which it first began.
        before: Digests of what this process trained before with this ``output_dir``.
        done: The ids of those.
    """

    id: str
    number: int
    trained: dict[str, Any]
    began_with: str
    before: list[str]
    done: set[str]

    def as_recorded(self) -> dict[str, Any]:
        """What a checkpoint says of it."""
        return {
            "job": told(JOB),
            "train_call": self.number,
            "training": self.id,
            "trained": self.trained,
            "began_with": self.began_with,
            "before": self.before,
        }

    def adopt(self, record: Origin) -> None:
        """Be the training that goes on from a checkpoint."""
        if record.training is not None:
            self.id, self.began_with = record.training, record.began_with

    def kinship(self, record: Origin, is_restart: bool) -> tuple[Kinship, str]:
        """What a checkpoint of the same folder is to this training, and why.

        Args:
            record: The checkpoint's.
            is_restart: Whether an earlier start of this job wrote it: the same script, with the same settings.
        """
        number = tr("it is of call {number} of train() with this output_dir", number=record.train_call)
        if record.training is None:  # an earlier version wrote it
            return (Kinship.OWN if record.train_call == self.number else Kinship.UNKNOWN), number
        if record.training in self.done:
            return Kinship.ANOTHERS, number
        changed, has_ended = self.changed(record), record.ended_with is not None
        if not changed and record.began_with == self.began_with:
            return Kinship.OWN, ""
        if digest_of(self.trained) in record.before:
            return Kinship.ANOTHERS, number
        if record.ended_with == self.began_with:
            return Kinship.ANOTHERS, tr("it has ended with the weights that this one begins with")
        if not changed:
            return Kinship.OWN, ""
        difference = _difference(changed, record.trained, self.trained)
        if record.train_call != self.number:
            return (Kinship.ANOTHERS if is_restart or has_ended else Kinship.UNKNOWN), difference
        if is_restart:
            return (Kinship.ANOTHERS if has_ended else Kinship.OWN), difference
        return (Kinship.UNKNOWN if has_ended and not LENGTH.issuperset(changed) else Kinship.OWN), difference

    def changed(self, record: Origin) -> list[str]:
        """What is trained otherwise than in a checkpoint."""
        return [name for name, value in self.trained.items() if record.trained.get(name) != value]

    def end(self, output_dir: str, weights: list[int]) -> None:
        """Note in the checkpoints of this training that it has come to its end, where they are written.

        Args:
            output_dir: Their folder.
            weights: Digests of those with which it ended.
        """
        for folder, content in store.published_in(output_dir):
            if content and content.get("training") == self.id:
                store.amend(folder, ended_with=digest_of(weights))


def begin_training(trainer, weights: list[int], collective: Collective) -> Training:
    """The training that a call of ``train()`` begins, the same on all ranks. All ranks must call it.

    Args:
        trainer: The Trainer, MindNLP's or Hugging Face's.
        weights: Digests of the parameters that are trained; those of rank 0 count.
        collective: The ranks that train together.
    """
    output_dir = os.path.realpath(trainer.args.output_dir)
    earlier = _begun[output_dir]
    training = Training(
        id=uuid.uuid4().hex,
        number=len(earlier) + 1,
        trained=_what_is_trained(trainer),
        began_with=digest_of(weights),
        before=[digest_of(training.trained) for training in earlier],
        done={training.id for training in earlier},
    )
    training = collective.all_gather_object(training, Message("what is trained"))[0]
    earlier.append(training)
    return training


def digest_of_rows(reading: tuple[dict[tuple[int, str], int], set[str]]) -> str:
    """A digest of rows that were read: of each value by its place, without the columns that are random."""
    digests, changing = reading
    return digest_of([(*place, value) for place, value in sorted(digests.items()) if place[1] not in changing])


def digest_of(content: Any) -> str:
    """Of what JSON can hold."""
    return xxhash.xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode())


def _what_is_trained(trainer):
    arguments = {name: _plain(getattr(trainer.args, name)) for name in ARGUMENTS}
    shapes = [(name, *each.shape, each.requires_grad) for name, each in trainer.model.named_parameters()]
    return {**arguments, "model": digest_of(shapes)}


def _plain(value):
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, int | float | str | None) else str(value)


def _difference(changed, before, now):
    return ", ".join(
        tr("{name} has changed", name=SHOWN[name])
        if name in SHOWN
        else tr("{name} was {before} and is {now}", name=name, before=before.get(name), now=now[name])
        for name in changed
    )
