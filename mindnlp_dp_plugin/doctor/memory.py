"""What a rank needs to train a model with AdamW, by each stage of ZeRO, before anything is trained."""

import json
import subprocess
import sys
from typing import NamedTuple

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table

from mindnlp_dp_plugin.config import ZERO_STAGES
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr

CARDS_GB = (16, 32, 64)
GIGABYTE = 2**30
BUCKET_BYTES = 25 * 2**20  # of HCCL and MCCL
BUCKETS_UNDER_WAY = 5
MASTER = GRADIENT = 4  # bytes of an element: float32, also with fp16=True
STATES = 8  # AdamW's two
ANSWER = "TRIAL GRADIENT: "
WIDTH_OF_A_LOG = 120


class Trial(NamedTuple):
    """What one gradient in one process showed.

    Attributes:
        model: The class of the model.
        trained: Elements of parameters that are trained.
        frozen_bytes: Bytes of those that are not.
        largest: Elements of the largest that is trained.
        activation_bytes: By how much the batch raised the peak, beside parameters and gradients.
    """

    model: str
    trained: int
    frozen_bytes: int
    largest: int
    activation_bytes: int


def try_gradient(model: str, batch: int, length: int, fp16: bool) -> Trial:
    """Take one gradient in a child process, with random weights.

    Args:
        model: A folder with a ``config.json``, or a name that MindNLP can fetch.
        batch: Rows of a rank's batch.
        length: Tokens of a row.
        fp16: Whether operators compute in mixed precision.

    Raises:
        DataParallelError: If the child fails; with its last words.
    """
    module = "mindnlp_dp_plugin.doctor.trial_gradient"
    command = [sys.executable, "-m", module, model, batch, length, "fp16" if fp16 else "float32"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    for line in ended.stdout.splitlines():
        if line.startswith(ANSWER):
            return Trial(**json.loads(line.removeprefix(ANSWER)))
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    cause = lines[-1] if lines else tr("exit status {status}", status=ended.returncode)
    raise DataParallelError(
        "--memory {model}: a gradient of {batch} x {length} tokens failed: {cause}. Give a folder with a config.json, "
        "or a smaller batch.",
        model=model,
        batch=batch,
        length=length,
        cause=cause,
    )


def needs(trial: Trial, nproc: int, stage: int) -> dict[str, int]:
    """Bytes on each rank, by what they hold.

    Args:
        trial: What one gradient showed.
        nproc: Number of ranks.
        stage: The stage of ZeRO.
    """
    share_of_states, share_of_gradients = nproc if stage >= 1 else 1, nproc if stage == 2 else 1
    bucket = max(BUCKET_BYTES, GRADIENT * trial.largest)
    buckets = GRADIENT * trial.trained if nproc > 1 else 0  # copies of the gradients, in which they travel
    if stage == 2:
        buckets = min(buckets, BUCKETS_UNDER_WAY * bucket)
    return {
        Message("parameters"): MASTER * trial.trained + trial.frozen_bytes,
        Message("gradients"): GRADIENT * trial.trained // share_of_gradients,
        Message("optimizer states"): STATES * trial.trained // share_of_states,
        Message("buckets"): buckets,
        Message("activations"): trial.activation_bytes,
    }


def show(trial: Trial, nproc: int, batch: int, length: int) -> None:
    """Print the table, and which cards are large enough."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_LOG)
    columns = [needs(trial, nproc, stage) for stage in ZERO_STAGES]
    known = {"model": trial.model, "batch": batch, "length": length}
    if nproc == 1:
        title = tr("{model} with AdamW on 1 rank, {batch} x {length} tokens", **known)
    else:
        title = tr("{model} with AdamW on {ranks} ranks, {batch} x {length} tokens each", ranks=nproc, **known)
    table = Table(box=ASCII2, title=title)
    table.add_column(tr("GB on each rank"))
    for stage in ZERO_STAGES:
        table.add_column(f"zero_stage={stage}", justify="right")
    for name in columns[0]:
        table.add_row(tr(name), *(f"{column[name] / GIGABYTE:.2f}" for column in columns))
    table.add_section()
    totals = [sum(column.values()) / GIGABYTE for column in columns]
    table.add_row(tr("together"), *(f"{total:.2f}" for total in totals))
    for card in CARDS_GB:
        fits = (tr("fits") if total < card else tr("too small") for total in totals)
        table.add_row(tr("card of {gb} GB", gb=card), *fits)
    console.print(table)
    console.print(
        tr(
            "Activations were measured with one gradient in this machine's memory; the rest is computed. MindSpore's "
            "own runtime needs memory beside it."
        ),
        highlight=False,
    )
