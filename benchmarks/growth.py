"""What averaging costs as ranks become more, on one machine and on several: ``make growth``, on an idle machine.

    python benchmarks/growth.py [--keep FOLDER]

On one machine, where ranks share the cores: the processor's time for a row with averaging and without, in turns; and a
sum of the gradients alone, beside what the memory it must touch takes, and by MPI. On
nodes, which are network namespaces joined by links of a limited rate: an exchange of the model's gradients, by msrun
and mpirun, beside the least that a ring can take, 2 (N - 1) / N of the bytes at the link's rate; and beside what the
model of ``mindnlp-dp bench``, fitted to the fewest nodes, says of more. Nodes need root and iproute2.
What is finished in the folder to keep is not run again. Writes
``benchmarks/results/growth_<cpu>_<date>.json``, ``.md`` and ``.png``.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import namespaces
from benchmarks.hosts import Job
from benchmarks.record import write_results
from mindnlp_dp_plugin.bench.cost import Link, fit_ring, ring_all_reduce
from tests.harness import REPOSITORY, run_ranks_successfully

PROGRAMS, BENCH = Path(__file__).parent / "programs", REPOSITORY / "mindnlp_dp_plugin/bench/on_ranks.py"
MODEL, ROWS, ROUNDS = "bert-9m", 4, 8
RANKS = (2, 4, 8)
WAYS = {"mpirun": ("mpirun", 1), "msrun": ("msrun", 1), "mpirun, 2 ranks of each": ("mpirun", 2)}
RATES = {"10 Gbit/s": 10**10, "1 Gbit/s": 10**9, "100 Mbit/s": 10**8}
NODES = {"10 Gbit/s": (2, 4, 8), "1 Gbit/s": (2, 4, 8), "100 Mbit/s": (2,)}
FEWEST = 2
SIZES = tuple(2**power for power in range(10, 23, 3))
GRADIENTS = 36 * 2**20  # bytes of the model's
MANY = 64


def machine(folder):
    """Seconds of the processor for a row, by number of ranks: with averaging, and without."""
    found = {}
    for ranks in track(RANKS, "ranks of one machine"):
        output = folder / f"ranks_{ranks}"
        output.mkdir(exist_ok=True)
        job = dict(ranks=ranks, backend="mpi", log_dir=output / "logs", timeout=1800)
        arguments = (output, MODEL, ROWS, ROUNDS, "averaged", "local")
        if not (output / "gradient_steps.rank0.json").exists():
            run_ranks_successfully(PROGRAMS / "gradient_steps.py", *arguments, **job)
        left = [json.loads((output / f"gradient_steps.rank{rank}.json").read_text()) for rank in range(ranks)]
        found[ranks] = {}
        for way in ("averaged", "local"):
            steps = zip(*(rank["seconds"][way] for rank in left))
            of_all = (sum(worked for _, _, worked in step) for step in steps)
            found[ranks][way] = statistics.median(of_all) / (ROWS * ranks)
        if not (output / "sums.rank0.json").exists():
            run_ranks_successfully(PROGRAMS / "sums.py", output, **job)
        left = [json.loads((output / f"sums.rank{rank}.json").read_text()) for rank in range(ranks)]
        found[ranks] |= {way: max(statistics.median(rank[way]) for rank in left) for way in left[0]}
    return found


def nodes(folder):
    """Seconds of an all-reduce by its bytes, for each way to start ranks, rate and number of nodes."""
    cases = [(way, rate, number) for way in WAYS for rate in RATES for number in NODES[rate]]
    found = {}
    for way, rate, number in track(cases, "nodes"):
        engine, of_each = WAYS[way]
        output = folder / f"{engine}_{of_each}_{RATES[rate]}_{number}"
        output.mkdir(exist_ok=True)
        if not (output / "result").exists():
            with namespaces.network(number) as hosts:
                for host in hosts:
                    host.limit(RATES[rate])
                sizes = map(str, (*SIZES, GRADIENTS))
                Job(hosts, engine, output, BENCH, output / "result", *sizes, per_host=of_each).wait()
        seconds = json.loads((output / "result").read_text())
        found.setdefault(way, {}).setdefault(rate, {})[number] = {int(size): taken for size, taken in seconds.items()}
    return found


def of_machine(found):
    lines = ["| ranks | processor's ms for a row, with averaging | without | ratio "]
    lines[0] += "| a sum of 36 MB, ms | its memory read and written once | ratio | by MPI |"
    lines += ["| --- " * 8 + "|"]
    for ranks, ways in found.items():
        pairs = (("averaged", "local"), ("windows", "one_pass"))
        cells = [f"{ways[a] * 1e3:.1f} | {ways[b] * 1e3:.1f} | {ways[a] / ways[b]:.3f}" for a, b in pairs]
        lines.append(f"| {ranks} | {' | '.join(cells)} | {ways['by_mpi'] * 1e3:.1f} |")
    return lines


def of_nodes(found):
    lines = [
        f"| started by | link | nodes | s for {GRADIENTS // 2**20} MB | a ring's least | ratio | model says | off by |"
    ]
    lines += ["| --- " * 8 + "|"]
    for engine, rates in found.items():
        for rate, by_nodes in rates.items():
            link, more = fitted(by_nodes[FEWEST]), [number for number in by_nodes if number > FEWEST]
            for number, seconds in by_nodes.items():
                least = ring_all_reduce(GRADIENTS, number, Link(0, RATES[rate] / 8))
                says = ring_all_reduce(GRADIENTS, number, link)
                taken = seconds[GRADIENTS]
                cells = [engine, rate, number, f"{taken:.3f}", f"{least:.3f}", f"{taken / least:.2f}"]
                lines.append(f"| {' | '.join(map(str, cells))} | {says:.3f} | {says / taken - 1:+.0%} |")
            if not more:
                continue
            off = max(abs(ring_all_reduce(GRADIENTS, n, link) / by_nodes[n][GRADIENTS] - 1) for n in more)
            says = ring_all_reduce(GRADIENTS, MANY, link)
            lines.append(f"| {engine} | {rate} | {MANY} | not run | | | {says:.3f} | up to {off:.0%} on {more} |")
    return lines


def fitted(seconds):
    """The link of the ring that fits the fewest nodes."""
    return fit_ring(list(seconds), list(seconds.values()), FEWEST)


def draw(of_ranks, by_engine, path):
    figure = Figure(figsize=(11, 4), layout="constrained")
    ranks_axes, nodes_axes = figure.subplots(1, 2)
    for way, marker in (("averaged", "o"), ("local", "s")):
        points = [of_ranks[ranks][way] * 1e3 for ranks in of_ranks]
        ranks_axes.plot(list(of_ranks), points, marker + "-", label={"averaged": "with averaging"}.get(way, "without"))
    ranks_axes.set(title=f"{MODEL}: ranks of one machine", xlabel="ranks", ylabel="processor's ms for a row", ylim=0)
    ranks_axes.set_xticks(list(of_ranks))
    ranks_axes.legend()
    for (engine, rates), marker in zip(by_engine.items(), "os^"):
        for (rate, by_nodes), color in zip(rates.items(), ("tab:green", "tab:blue", "tab:orange")):
            points = [seconds[GRADIENTS] for seconds in by_nodes.values()]
            nodes_axes.semilogy(list(by_nodes), points, marker, color=color, label=f"{engine}, {rate}")
            model = [ring_all_reduce(GRADIENTS, n, fitted(by_nodes[FEWEST])) for n in by_nodes]
            nodes_axes.semilogy(list(by_nodes), model, "--" if marker == "o" else ":", color=color)
    for bits, color in zip(RATES.values(), ("tab:green", "tab:blue", "tab:orange")):
        least = [ring_all_reduce(GRADIENTS, n, Link(0, bits / 8)) for n in NODES["1 Gbit/s"]]
        nodes_axes.semilogy(NODES["1 Gbit/s"], least, "-", color=color, linewidth=0.8)
    nodes_axes.set(title="nodes (line: a ring's least; dashed: model)", xlabel="nodes", ylabel="seconds for 36 MB")
    nodes_axes.set_xticks(NODES["1 Gbit/s"])
    nodes_axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-growth-") as name:
        folder = (keep or Path(name)).absolute()
        folder.mkdir(exist_ok=True)
        of_ranks, by_engine = machine(folder), nodes(folder)
    lines = [*of_machine(of_ranks), "", *of_nodes(by_engine)]
    path = write_results("growth", {"machine": of_ranks, "nodes": by_engine}, "\n".join(lines))
    draw(of_ranks, by_engine, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
