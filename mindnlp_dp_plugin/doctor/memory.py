"""What a rank needs to train a model, by each stage of ZeRO, before anything is trained."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.doctor.finding import last_words
from mindnlp_dp_plugin.doctor.report import console
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.job.variables import DEFERRED
from mindnlp_dp_plugin.language import Message, tr

CARDS_GB = (16, 32, 64)
MEGABYTE, GIGABYTE = 2**20, 2**30
BUCKETS_UNDER_WAY = 5  # in ddp/reducer.py, and the one that fills
SUMMED_IN = 4  # bytes of an element that travels: float32
MPI_BYTES = 20 * MEGABYTE  # Open MPI and its buffers, measured alone
ANSWER = "TRIAL STEPS: "
NUM_STEPS = 4  # the second lays buckets out anew; rows of later batches may be longer
HOW = Message(
    "Activations were measured in this machine's memory, with no step of the optimizer; its states and the buckets, "
    "those of HCCL and MCCL, are computed. On a card MindSpore's own runtime needs memory beside it. A process on this "
    "CPU includes Python, MindSpore and MindNLP; over MPI gradients lie in the buckets."
)
EXAMPLE = ("-m", "mindnlp_dp_plugin.doctor.example")  # followed by MODEL BATCHxLENGTH [fp16]


class Trial(NamedTuple):
    """What one process showed that was a rank of so many, but for the optimizer's steps.

    Attributes:
        model: The class of the model.
        optimizer: That of the optimizer.
        own_stage: The ``zero_stage`` that the script has set.
        trained: Elements of parameters that are trained.
        largest: Elements of the largest of them.
        parameter_bytes: Bytes of all parameters, and of buffers.
        gradient_bytes: Bytes of the gradients of what is trained.
        state_bytes: Bytes of the optimizer's states, on all ranks together.
        process_bytes: What the process held beside the model when training began; nothing of it lies on a card.
        step_bytes: By how much its peak then was above that and the parameters that a rank keeps.
    """

    model: str
    optimizer: str
    own_stage: int
    trained: int
    largest: int
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    process_bytes: int
    step_bytes: int


def try_steps(command: Sequence[str], nproc: int, stage: int) -> Trial:
    """Be a rank in a child process, up to the optimizer's step.

    Args:
        command: A training script, or ``EXAMPLE`` and its arguments.
        nproc: Number of ranks.
        stage: The stage of ZeRO.

    Raises:
        DataParallelError: If the child fails; with its last words.
    """
    child = [sys.executable, "-m", "mindnlp_dp_plugin.doctor.trial_steps", str(nproc), str(stage), *command]
    environ = {**os.environ, DEFERRED: "1"}  # the child pins itself first, as a rank does
    ended = subprocess.run(child, capture_output=True, text=True, env=environ)
    if answer := ended.stdout.partition(ANSWER)[2]:
        return Trial(**json.loads(answer.splitlines()[0]))
    cause = last_words(ended) if ended.returncode else tr("the script has ended without Trainer.train()")
    raise DataParallelError(
        "--memory {what}: no steps can be tried ({cause}). Give a script that calls Trainer.train(), or a folder with "
        "a config.json and a batch that fits this machine.",
        what=named(command),
        cause=cause.removeprefix(f"{DataParallelError.__module__}.{DataParallelError.__name__}: "),
    )


def named(command: Sequence[str]) -> str:
    """What is tried, as the user has named it."""
    return " ".join(word for word in command if word not in EXAMPLE)


def needs(trial: Trial, nproc: int, stage: int) -> dict[str, int]:
    """Bytes on each card, by what they hold.

    Args:
        trial: What a process showed.
        nproc: Number of ranks.
        stage: The stage of ZeRO.
    """
    bucket = max(int(ENGINES["hccl"].bucket_cap_mb * MEGABYTE), SUMMED_IN * trial.largest)
    buckets = SUMMED_IN * trial.trained if nproc > 1 else 0  # copies of the gradients, in which they travel
    if stage == 2:
        buckets = min(buckets, BUCKETS_UNDER_WAY * bucket)
    elif stage == 3:
        buckets = 0  # among the activations: they are as large as a layer
    gradients = trial.gradient_bytes // (nproc if stage >= 2 else 1)
    return {
        Message("parameters"): trial.parameter_bytes // (nproc if stage == 3 else 1),
        Message("gradients"): gradients,
        Message("optimizer states"): trial.state_bytes // (nproc if stage else 1),
        Message("buckets"): buckets,
        Message("activations"): max(0, trial.step_bytes - gradients),
    }


def peak_on_cpu(trial: Trial, nproc: int, stage: int) -> int:
    """The peak of a rank's process on CPU over MPI, where gradients lie in their buckets."""
    kept = needs(trial, nproc, stage)
    training = kept["parameters"] + trial.step_bytes + kept["optimizer states"]
    process = trial.process_bytes + (MPI_BYTES if nproc > 1 else 0)
    return process + max(training, trial.parameter_bytes)  # whole while they are loaded


def show(command: Sequence[str], nproc: int, stage: int | None) -> None:
    """Print the table, and which cards are large enough.

    Args:
        command: A training script, or ``EXAMPLE`` and its arguments.
        nproc: Number of ranks.
        stage: The only stage of ZeRO to show; None for all.

    Raises:
        DataParallelError: If the script or the model cannot be tried.
    """
    with Console(stderr=True).status(tr("a few steps without the optimizer ...")):
        trials, obstacle = _try_stages(command, nproc, stage)
    any_trial = next(iter(trials.values()))
    trained = {"what": named(command), "model": any_trial.model, "optimizer": any_trial.optimizer, "ranks": nproc}
    title = tr("{what}: {model} with {optimizer}, ranks: {ranks}", **trained)
    table = Table(tr("GB on each rank"), box=ASCII2, title=title)
    for stage, trial in trials.items():
        is_set = stage == trial.own_stage and command[0] not in EXAMPLE
        name = tr("zero_stage={stage}, as set", stage=stage) if is_set else f"zero_stage={stage}"
        table.add_column(name, justify="right")
    columns = [needs(trial, nproc, stage) for stage, trial in trials.items()]
    for name in columns[0]:
        table.add_row(tr(name), *_gigabytes(column[name] for column in columns))
    table.add_section()
    totals = [sum(column.values()) for column in columns]
    table.add_row(tr("together"), *_gigabytes(totals))
    for card in CARDS_GB:
        fits = (tr("fits") if total < card * GIGABYTE else tr("too small") for total in totals)
        table.add_row(tr("card of {gb} GB", gb=card), *fits)
    if not has_ascend():
        table.add_section()
        peaks = (peak_on_cpu(trial, nproc, stage) for stage, trial in trials.items())
        table.add_row(tr("process on this CPU"), *_gigabytes(peaks))
    where = console()
    where.print(table)
    for note in filter(None, (tr(HOW), obstacle)):
        where.print(note, highlight=False, markup=False)


def _try_stages(command, nproc, stage):
    """A trial of each stage, and why there are no others, if there could be."""
    first, *others = [stage] if stage is not None else [0, 2, 3] if nproc > 1 else [0]
    trials, obstacle = {first: try_steps(command, nproc, first)}, None
    try:
        for other in others:
            trials[other] = try_steps(command, nproc, other)
            trials[1] = trials[0]  # whose steps are those of stage 0, but for the optimizer
    except DataParallelError as error:
        obstacle = str(error)
    return dict(sorted(trials.items())), obstacle


def _gigabytes(sizes):
    return [f"{size / GIGABYTE:.2f}" for size in sizes]
