"""What a checkpoint says beside model, optimizer and scheduler.

A new field is a line in ``Record``, with a default for the checkpoints that lack it, and the places that write and read
it. The keys in the file are the names of the fields; two of ``Settings`` are called otherwise there (``NAMES``).
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from mindnlp_dp_plugin.language import Message, tr

NAMES = {"batch_size": Message("batch size"), "num_rows": Message("number of rows")}


@dataclass(frozen=True)
class Position:
    """Where training stands.

    Attributes:
        epoch: The epoch.
        micro_steps_in_epoch: Micro-steps done in it.
        micro_steps: Micro-steps done since training first began.
    """

    epoch: int = 0
    micro_steps_in_epoch: int = 0
    micro_steps: int = 0


@dataclass(frozen=True)
class Settings:
    """The settings that decide which rows make a step; none may change in the middle of an epoch.

    Attributes:
        world_size: The ranks.
        batch_size: Rows of a rank's micro-step.
        gradient_accumulation_steps: Micro-steps of a step.
        seed: What the order of the rows is drawn from.
        num_rows: Rows of the data set; None if unknown.
        group_by_length: Whether rows of similar length are read together.
        elastic_determinism: Whether a step's micro-batches hold the same rows on any number of ranks.
    """

    world_size: int
    batch_size: int
    gradient_accumulation_steps: int
    seed: int
    num_rows: int | None
    group_by_length: bool
    elastic_determinism: bool = False

    @property
    def micro_batch(self) -> int:
        """Rows of a micro-step on all ranks."""
        return self.world_size * self.batch_size

    @property
    def global_batch(self) -> int:
        """Rows of an optimizer step."""
        return self.micro_batch * self.gradient_accumulation_steps


@dataclass(frozen=True)
class Origin:
    """Of which training a checkpoint is, of whatever Trainer: fields of its record, None where it lacks them.

    Attributes:
        job: The run of ``mindnlp-dp run`` that wrote it.
        train_call: In which of its process's calls of ``train()`` with this ``output_dir``.
        training: The training it belongs to: a name that no other has.
        followed_by: In which of its process's calls of ``train()`` another training has taken the folder over.
        has_ended: Whether the training has come to its end.
    """

    job: str | None = None
    train_call: int | None = None
    training: str | None = None
    followed_by: int | None = None
    has_ended: bool | None = None

    @classmethod
    def of(cls, content: dict[str, Any]) -> "Origin":
        """What a record says of it."""
        return cls(**{field.name: content.get(field.name) for field in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class Record(Origin):
    """What goes into the file of that name. A checkpoint of an earlier version lacks what has a default.

    It has many fields because the file is flat: each is an entry of it.

    Attributes:
        epoch: See ``Position``.
        micro_steps_in_epoch: See ``Position``.
        micro_steps: See ``Position``.
        epoch_end_is_done: Whether the end of its epoch was done, with micro-steps pending that are repeated.
        epoch_end_is_due: Whether it was saved before what its epoch ends with, such as an evaluation.
        stopped_early: Whether a callback had stopped training.
        total_loss: The sum of all losses.
        pending_loss: What of that was not logged.
        last_logged_step: The step of the last log; None if that is the last step.
        patience: How long each callback with patience has waited.
        with_optimizer: Whether the optimizer's states are there.
        nominal_accumulation: Micro-steps of a step when training first began; None for those of ``settings``.
        settings: What decides which rows make a step.
        host_random: The states of Python's and NumPy's generators on each rank.
        loss_scaling: The state of the scale of the loss, if there is one.
        command: With ``elastic_determinism``: the script that trained, and its arguments.
        environment: With ``elastic_determinism``: whose bits they are, the processor and versions by package.
        same_bits_on: With ``elastic_determinism``: the numbers of ranks that train the same bits.
    """

    epoch: int
    micro_steps_in_epoch: int
    micro_steps: int
    epoch_end_is_done: bool
    epoch_end_is_due: bool = False
    stopped_early: bool
    total_loss: float
    pending_loss: float = 0.0
    last_logged_step: int | None = None
    patience: list[int]
    with_optimizer: bool
    nominal_accumulation: int | None = None
    settings: Settings
    host_random: list[dict[str, Any]]
    loss_scaling: dict[str, Any] | None = None
    command: list[str] | None = None
    environment: dict[str, str] | None = None
    same_bits_on: list[int] | None = None

    @property
    def position(self) -> Position:
        """Where training stood."""
        return Position(self.epoch, self.micro_steps_in_epoch, self.micro_steps)

    def as_json(self) -> dict[str, Any]:
        """In a form JSON can hold."""
        content = {name: value for name, value in vars(self).items() if value is not None}
        settings = {key: getattr(self.settings, name) for name, key in _keys_of(Settings).items()}
        return {**content, "settings": settings}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Record":
        """What ``as_json`` has made, of this version or another; nothing may be ``missing_in`` it."""
        found = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        saved = content["settings"]
        settings = {name: saved[key] for name, key in _keys_of(Settings).items() if key in saved}
        return cls(**{**found, "settings": Settings(**settings)})

    @classmethod
    def missing_in(cls, content: dict[str, Any]) -> list[str]:
        """What every version writes, and ``content`` does not hold."""
        missing = [key for key in _keys_of(cls, MISSING).values() if key not in content]
        settings = content.get("settings")
        if not isinstance(settings, dict):
            return missing if "settings" in missing else [*missing, "settings"]
        return missing + [key for key in _keys_of(Settings, MISSING).values() if key not in settings]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which settings are others now, for a message; empty if none is."""
    return ", ".join(
        tr("{name} was {before} and is {now}", name=NAMES.get(name, name), before=before[name], now=value)
        for name, value in now.items()
        if before[name] != value
    )


def _keys_of(of_fields, default=None):
    """The key of each field; or, with a default, of those that have it."""
    return {
        field.name: NAMES.get(field.name, field.name)
        for field in fields(of_fields)
        if default is None or field.default is default
    }
