"""What a rank needs to train a model, by each stage of ZeRO, before anything is trained."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.job.variables import DEFERRED
from mindnlp_dp_plugin.language import Message, tr

CARDS_GB = (16, 32, 64)
MEGABYTE, GIGABYTE = 2**20, 2**30
BUCKETS_UNDER_WAY = 5  # in ddp/reducer.py, and the one that fills
SUMMED_IN = 4  # bytes of an element that travels: float32
ANSWER = "TRIAL STEPS: "
NUM_STEPS = 4  # the second lays buckets out anew; rows of later batches may be longer
WIDTH_OF_A_LOG = 120


class Example(NamedTuple):
    """What to train a model on that no script trains.

    Attributes:
        batch: Rows of a rank's batch.
        length: Tokens of a row.
        fp16: Whether operators compute in mixed precision.
    """

    batch: int
    length: int
    fp16: bool


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


def try_steps(what: str, nproc: int, stage: int, example: Example | None) -> Trial:
    """Be a rank in a child process, up to the optimizer's step.

    Args:
        what: A training script; with an example a model: a folder with a ``config.json``, or a name that MindNLP can
            fetch.
        nproc: Number of ranks.
        stage: The stage of ZeRO.
        example: What to train a model on; None for a script.

    Raises:
        DataParallelError: If the child fails; with its last words.
    """
    module = "mindnlp_dp_plugin.doctor.trial_steps"
    command = [sys.executable, "-m", module, nproc, stage, what, *map(int, example or ())]
    environ = {**os.environ, DEFERRED: "1"}  # the child pins itself first, as a rank does
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environ)
    for line in ended.stdout.splitlines():
        if line.startswith(ANSWER):
            return Trial(**json.loads(line.removeprefix(ANSWER)))
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    cause = lines[-1] if lines else tr("exit status {status}", status=ended.returncode)
    cause = cause.removeprefix(f"{DataParallelError.__module__}.{DataParallelError.__name__}: ")
    if example is None:
        raise DataParallelError("--memory {script} cannot be run up to train(): {cause}", script=what, cause=cause)
    raise DataParallelError(
        "--memory {model}: a gradient of {batch} x {length} tokens failed: {cause}. Give a folder with a config.json, "
        "or a smaller batch.",
        model=what,
        batch=example.batch,
        length=example.length,
        cause=cause,
    )


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
        Message("parameters"): parameters(trial, nproc, stage),
        Message("gradients"): gradients,
        Message("optimizer states"): states(trial, nproc, stage),
        Message("buckets"): buckets,
        Message("activations"): max(0, trial.step_bytes - gradients),
    }


def parameters(trial: Trial, nproc: int, stage: int) -> int:
    """Bytes of the parameters and buffers that each rank keeps."""
    return trial.parameter_bytes // (nproc if stage == 3 else 1)


def states(trial: Trial, nproc: int, stage: int) -> int:
    """Bytes of the optimizer's states on each rank."""
    return trial.state_bytes // (nproc if stage else 1)


def peak_on_cpu(trial: Trial, nproc: int, stage: int) -> int:
    """The peak of a rank's process on CPU over MPI, where gradients lie in their buckets."""
    training = parameters(trial, nproc, stage) + trial.step_bytes + states(trial, nproc, stage)
    return trial.process_bytes + max(training, trial.parameter_bytes)  # whole while they are loaded


def show(what: str, nproc: int, example: Example | None, stage: int | None) -> None:
    """Print the table, and which cards are large enough.

    Args:
        what: A training script or a model, as for ``try_steps``.
        nproc: Number of ranks.
        example: What to train a model on; None for a script.
        stage: The only stage of ZeRO to show; None for all.

    Raises:
        DataParallelError: If the script or the model cannot be tried.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_LOG)
    trials, obstacle = _try_stages(what, nproc, example, stage)
    table, on_cpu = Table(box=ASCII2, title=_title(what, nproc, example, trials[0][1])), not has_ascend()
    table.add_column(tr("GB on each rank"))
    for stage, trial in trials:
        is_set = example is None and stage == trial.own_stage
        title = tr("zero_stage={stage}, as set", stage=stage) if is_set else f"zero_stage={stage}"
        table.add_column(title, justify="right")
    columns = [needs(trial, nproc, stage) for stage, trial in trials]
    for name in columns[0]:
        table.add_row(tr(name), *(_gigabytes(column[name]) for column in columns))
    table.add_section()
    totals = [sum(column.values()) for column in columns]
    table.add_row(tr("together"), *map(_gigabytes, totals))
    for card in CARDS_GB:
        fits = (tr("fits") if total < card * GIGABYTE else tr("too small") for total in totals)
        table.add_row(tr("card of {gb} GB", gb=card), *fits)
    notes = [
        tr(
            "Activations were measured in this machine's memory, with no step of the optimizer; its states and the "
            "buckets, those of HCCL and MCCL, are computed. On a card MindSpore's own runtime needs memory beside it."
        )
    ]
    if on_cpu:
        table.add_section()
        table.add_row(
            tr("process on this CPU"), *(_gigabytes(peak_on_cpu(trial, nproc, stage)) for stage, trial in trials)
        )
        beside = _gigabytes(trials[0][1].process_bytes)
        notes.append(
            tr(
                "The last row is the peak of a process here, of which Python, MindSpore, MindNLP and what was loaded "
                "before training take {gb} GB. Over MPI it has no buckets: gradients lie in them.",
                gb=beside,
            )
        )
    console.print(table)
    for note in [*notes, *([obstacle] if obstacle else [])]:
        console.print(note, highlight=False, markup=False)


def _try_stages(what, nproc, example, stage):
    """Stages with a trial of each, and why there are no others, if there could be."""
    with Console(stderr=True).status(tr("a few steps without the optimizer ...")):
        if stage is not None:
            return [(stage, try_steps(what, nproc, stage, example))], None
        plain = try_steps(what, nproc, 0, example)
        if nproc == 1:
            return [(0, plain)], None
        try:
            # With stage 1 the steps are those of stage 0, but for the optimizer.
            trials = [(0, plain), (1, plain)]
            for stage in (2, 3):
                trials.append((stage, try_steps(what, nproc, stage, example)))
        except DataParallelError as error:
            return trials if len(trials) > 2 else trials[:1], str(error)
        return trials, None


def _title(what, nproc, example, trial):
    if example is None:
        known = {"script": Path(what).name, "model": trial.model, "optimizer": trial.optimizer, "ranks": nproc}
        return tr("{script}: {model} with {optimizer}, ranks: {ranks}", **known)
    known = {"model": trial.model, "batch": example.batch, "length": example.length}
    if nproc == 1:
        return tr("{model} with AdamW on 1 rank, {batch} x {length} tokens", **known)
    return tr("{model} with AdamW on {ranks} ranks, {batch} x {length} tokens each", ranks=nproc, **known)


def _gigabytes(size):
    return f"{size / GIGABYTE:.2f}"
