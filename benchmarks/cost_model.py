"""The cost model of docs/bench.md, held against measurements, and what it says of 8, 64 and 1,024 devices.

    python benchmarks/cost_model.py

Times all-reduces of nine sizes over each engine on 2 ranks and, with the bytes each rank sends, on 3 and 4. Leave the
machine idle meanwhile. Writes ``benchmarks/results/cost_model_<cpu>_<date>.json``, ``.md`` and ``.png``.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from mindnlp_dp_plugin.bench.cost import Link, fit_ring, parameter_server, ring_all_reduce
from tests.harness import REPOSITORY, run_ranks_successfully

PROGRAMS = Path(__file__).parent / "programs"
MEGABYTE = 2**20
MESSAGE = 8 * MEGABYTE
BERT_BASE, NUM_PARAMETERS = 440e6, 201  # bytes of gradients
# Latency of a message and bytes per second, by the makers' and the standards' words, not measured here.
LINKS = {
    "HCCS within a server of Ascend 910, 30 GB/s, 10 us": Link(10e-6, 30e9),
    "100 Gbit/s RoCE, 20 us": Link(20e-6, 12.5e9),
    "1 Gbit/s Ethernet, 100 us": Link(100e-6, 0.125e9),
}
DEVICES = (2, 8, 64, 1024)


def all_reduces(folder, backend, ranks):
    """Seconds by size."""
    result = folder / f"{backend}_{ranks}.json"
    job = dict(ranks=ranks, backend=backend, log_dir=folder / f"logs_{backend}_{ranks}", timeout=900)
    run_ranks_successfully(REPOSITORY / "mindnlp_dp_plugin/bench/on_ranks.py", result, **job)
    return {int(size): seconds for size, seconds in json.loads(result.read_text()).items()}


def sent(folder, ranks):
    """Bytes and TCP segments each rank sends for one all-reduce over MCCL."""
    job = dict(ranks=ranks, backend="mccl", log_dir=folder / f"logs_sent_{ranks}", timeout=300)
    run_ranks_successfully(PROGRAMS / "sent_bytes.py", folder, MESSAGE, **job)
    return [json.loads((folder / f"sent_bytes.rank{rank}.json").read_text()) for rank in range(ranks)]


def summary(measured, links, counted):
    lines = ["All-reduce over 2 ranks, ms, beside the ring that fits best:", ""]
    lines += ["| message | MPI | model | MCCL | model |", "| --- | --- | --- | --- | --- |"]
    for size in measured["mpi"]:
        cells = []
        for backend in ("mpi", "mccl"):
            cells += [measured[backend][size], ring_all_reduce(size, 2, links[backend])]
        name = f"{size // 1024} KB" if size < MEGABYTE else f"{size // MEGABYTE} MB"
        lines.append(f"| {name} | " + " | ".join(f"{cell * 1e3:.3f}" for cell in cells) + " |")
    for backend, link in links.items():
        lines.append(
            f"\n{backend}: {link.latency * 1e6:.0f} us a message, {link.bandwidth / MEGABYTE:.0f} MB/s a link."
        )
    lines += [
        "",
        f"Sent by each rank for one all-reduce of {MESSAGE // MEGABYTE} MB over MCCL, in messages of that size:",
    ]
    lines += [
        "",
        "| ranks | counted, rank by rank | ring | a parameter server would send |",
        "| --- | --- | --- | --- |",
    ]
    for ranks, of_ranks in counted.items():
        each = ", ".join(f"{num_bytes / MESSAGE:.2f}" for num_bytes, _ in of_ranks)
        lines.append(f"| {ranks} | {each} | {2 * (ranks - 1) / ranks:.2f} each | {ranks - 1} |")
    lines += ["", f"Averaging BERT-base's gradients ({BERT_BASE / 1e6:.0f} MB), seconds, by the model:", ""]
    lines += ["| link | way | " + " | ".join(f"{devices} devices" for devices in DEVICES) + " |"]
    lines += ["| --- " * (len(DEVICES) + 2) + "|"]
    for name, link in LINKS.items():
        for way, seconds in WAYS.items():
            cells = " | ".join(f"{seconds(devices, link):.3g}" for devices in DEVICES)
            lines.append(f"| {name} | {way} | {cells} |")
    return "\n".join(lines)


WAYS = {
    "ring, 25 MB buckets": lambda n, link: 18 * ring_all_reduce(BERT_BASE / 18, n, link),
    "ring, a message per parameter": lambda n, link: (
        NUM_PARAMETERS * ring_all_reduce(BERT_BASE / NUM_PARAMETERS, n, link)
    ),
    "parameter server": lambda n, link: parameter_server(BERT_BASE, n, link),
}


def draw(measured, links, path):
    figure = Figure(figsize=(11, 4), layout="constrained")
    sizes_axes, devices_axes = figure.subplots(1, 2)
    for (backend, times), color in zip(measured.items(), ("tab:blue", "tab:orange")):
        sizes = list(times)
        sizes_axes.loglog(sizes, list(times.values()), "o", color=color, label=f"{backend}, measured")
        model = [ring_all_reduce(size, 2, links[backend]) for size in sizes]
        sizes_axes.loglog(sizes, model, color=color, label=f"{backend}, alpha-beta")
    sizes_axes.set(title="all-reduce over 2 ranks", xlabel="bytes", ylabel="seconds")
    sizes_axes.legend()
    devices = [2**power for power in range(1, 11)]
    link = LINKS["100 Gbit/s RoCE, 20 us"]
    for way, seconds in WAYS.items():
        devices_axes.loglog(devices, [seconds(n, link) for n in devices], label=way)
    devices_axes.set(title="BERT-base over 100 Gbit/s, by the model", xlabel="devices", ylabel="seconds")
    devices_axes.legend()
    figure.savefig(path, dpi=120)


def main():
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-cost-") as name:
        folder = Path(name)
        measured = {backend: all_reduces(folder, backend, 2) for backend in ("mpi", "mccl")}
        counted = {ranks: sent(folder, ranks) for ranks in (2, 3, 4)}
    links = {backend: fit_ring(list(times), list(times.values()), 2) for backend, times in measured.items()}
    data = {
        "cores": len(os.sched_getaffinity(0)),
        "seconds": measured,
        "links": {backend: vars(link) for backend, link in links.items()},
        "sent": {"message": MESSAGE, "bytes_and_segments": counted},
    }
    path = write_results("cost_model", data, summary(measured, links, counted))
    draw(measured, links, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
