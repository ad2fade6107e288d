"""What the ranks of ``mindnlp-dp bench`` run: ``python -m mindnlp_dp_plugin.bench.on_ranks [RESULT [BYTES ...]]``.

Rank 0 prints the measurements; with RESULT it also writes {bytes: seconds} to that file, as JSON. BYTES are the sizes
of the messages, otherwise 1 KB to 64 MB.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.bench.cost import best_bucket, exposed_seconds, fit_ring
from mindnlp_dp_plugin.bench.timing import all_reduce_seconds
from mindnlp_dp_plugin.language import tr

SIZES = tuple(2**power for power in range(10, 28, 2))
NUM_ROUNDS = 9
MEGABYTE = 2**20
BUCKETS_MB = (1, 2, 4, 8, 16, 25, 50, 100)
ROBERTA_BASE = 125e6 * 4  # bytes of gradients
BACKWARDS = (0.1, 0.3, 1.0, 3.0, 10.0)  # seconds


def main(result: Path | None, sizes: Sequence[int]) -> None:
    """Measure, and show the results on rank 0. All ranks must call it."""
    group = collectives.current()
    all_reduce_seconds(group, sizes[0], NUM_ROUNDS)  # the first ones open connections
    tracked = track(sizes, tr("all-reduces"), disable=not dp.is_main_process())
    slowest = [max(group.all_gather_object(all_reduce_seconds(group, size, NUM_ROUNDS))) for size in tracked]
    measured = dict(zip(sizes, slowest))
    if dp.is_main_process():
        show(measured, group.world_size)
        if result:
            result.write_text(json.dumps(measured))


def show(measured: dict[int, float], world_size: int) -> None:
    """Print two tables: the measurements, and the estimate for training RoBERTa-base."""
    console = Console(width=100)
    title = tr("all-reduce over {ranks} ranks, medians", ranks=world_size)
    table = Table(tr("message"), "ms", "MB/s", tr("MB/s on the wire"), title=title)
    for size, seconds in measured.items():
        megabytes = size / MEGABYTE
        # What nccl-tests calls bus bandwidth: the bytes each rank sends, and receives, in a ring.
        on_the_wire = 2 * (world_size - 1) / world_size * megabytes / seconds
        name = f"{size // 1024} KB" if size < MEGABYTE else f"{megabytes:.0f} MB"
        table.add_row(name, f"{seconds * 1e3:.3f}", f"{megabytes / seconds:.0f}", f"{on_the_wire:.0f}")
    console.print(table)

    if world_size == 1:
        return
    link = fit_ring(list(measured), list(measured.values()), world_size)
    console.print(
        tr(
            "As a ring: {latency:.0f} us a message, {bandwidth:.0f} MB/s a link.",
            latency=link.latency * 1e6,
            bandwidth=link.bandwidth / MEGABYTE,
        )
    )
    work_of = tr("{ranks} ranks do the work of", ranks=world_size)
    title = tr("RoBERTa-base (500 MB of gradients), by this model")
    table = Table(tr("backward, s"), tr("best bucket_cap_mb"), tr("waits, s"), work_of, title=title)
    for backward in BACKWARDS:
        arguments = backward, world_size, link
        bucket = best_bucket(ROBERTA_BASE, *arguments, [size * MEGABYTE for size in BUCKETS_MB])
        waits = exposed_seconds(ROBERTA_BASE, bucket, *arguments)
        step = 1.5 * backward  # forward takes half as long as backward
        work = world_size * step / (step + waits)
        table.add_row(f"{backward:g}", f"{bucket / MEGABYTE:.0f}", f"{waits:.3f}", f"{work:.2f}")
    console.print(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None, [int(size) for size in sys.argv[2:]] or SIZES)
