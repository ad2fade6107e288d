"""How fast data-parallel training is, beside what else one could do: ``make bench``, on an idle machine.

    python benchmarks/speed.py [--torch PYTHON] [--only NAME ...]

Each measurement is a job of its own, or several that are compared; what is compared is timed in one run, by turns where
that can be. Medians, as ratios. Writes ``benchmarks/results/speed_<cpu>_<date>.json``, ``.md`` and ``.png``.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import results_file, write_results
from mindnlp_dp_plugin.bench.cost import fit_ring, ring_all_reduce
from mindnlp_dp_plugin.launch.ports import free_port
from tests.harness import REPOSITORY, run_ranks_successfully

PROGRAMS = Path(__file__).parent / "programs"
MEASUREMENTS = {}
TIMEOUT_S = 1800
MINDNLPS_OPERATORS = {"MINDNLP_DP_CPU_OPERATORS": "0"}


def measurement(function):
    """A function of a folder for what its jobs leave; returns rows: what, ratio or number, limit, detail."""
    MEASUREMENTS[function.__name__] = function
    return function


def at_most(what, value, limit, detail):
    return {"what": what, "value": value, "limit": f"<= {limit}", "is_met": value <= limit, "detail": detail}


def at_least(what, value, limit, detail):
    return {"what": what, "value": value, "limit": f">= {limit}", "is_met": value >= limit, "detail": detail}


def run(folder, program, *arguments, ranks, backend="auto", env=None):
    """What each rank of a job left."""
    folder.mkdir(parents=True)
    job = dict(ranks=ranks, backend=backend, log_dir=folder / "logs", timeout=TIMEOUT_S, env=env)
    run_ranks_successfully(PROGRAMS / f"{program}.py", folder, *arguments, **job)
    return [json.loads((folder / f"{program}.rank{rank}.json").read_text()) for rank in range(ranks)]


@contextmanager
def on_one_core():
    """What is started within has the first core alone."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def slowest(ranks, way):
    """The median step of the slowest rank, in seconds."""
    return max(statistics.median(rank["seconds"][way]) for rank in ranks)


def medians(ranks, way, choose=max):
    """Seconds of a step, and of its exposed part. Steps begin together, so one takes what its last rank takes."""
    steps = list(zip(*(rank["seconds"][way] for rank in ranks)))
    return [statistics.median(choose(seconds[part] for seconds in step) for step in steps) for part in (0, 1)]


def best_alone(folder, env=None):
    """Samples per second of BERT-base in one process on the whole machine, with the better of two batch sizes."""
    per_second = []
    for size, rounds in ((8, 5), (16, 3)):
        (result,) = run(folder / f"one_{size}", "gradient_steps", "bert-base", size, rounds, "local", ranks=1, env=env)
        per_second.append(size / medians([result], "local")[0])
    return max(per_second)


@measurement
def averaging(folder):
    """What it costs to average: steps with it, by MPI, and without, in turns."""
    found = []
    for model, rows, rounds, limit in (("bert-9m", 4, 25, 1.02), ("bert-base", 8, 7, 1.01)):
        ways = ("averaged", "by_mpi", "local")
        ranks = run(folder / model, "gradient_steps", model, rows, rounds, *ways, ranks=2, backend="mpi")
        shared, by_mpi, local = (medians(ranks, way)[0] for way in ways)
        detail = f"{shared:.3f} s / {local:.3f} s; by MPI, in memory of each rank's own: {by_mpi / local:.3f}"
        found.append(at_most(f"{model}: step with averaging / without", shared / local, limit, detail))
    return found


@measurement
def bert_base(folder):
    """A step of BERT-base, 8 rows of 128 tokens per rank: forward, backward and averaging."""
    together = run(folder / "two", "gradient_steps", "bert-base", 8, 7, "averaged", "local", ranks=2, backend="mpi")
    blocking = ("per_parameter", "grad_reducer")
    stock = run(folder / "stock", "gradient_steps", "bert-base", 8, 3, *blocking, ranks=2, backend="mccl")
    alone = best_alone(folder)
    with on_one_core():
        (one_core,) = run(folder / "one_core", "gradient_steps", "bert-base", 8, 3, "local", ranks=1)
    crowd = run(folder / "four", "gradient_steps", "bert-base", 8, 3, "averaged", ranks=4, backend="mpi")

    (step, exposed), (local, _), (stock_step, stock_exposed) = (
        medians(together, "averaged"), medians(together, "local"), medians(stock, "per_parameter"),
    )  # fmt: skip
    # Who is done with backward first waits for its peer, too; who is last, for the data alone.
    data_alone, stock_data_alone = medians(together, "averaged", min)[1], medians(stock, "per_parameter", min)[1]
    gradients = together[0]["gradient_bytes"]
    sent = together[0]["bytes_per_step"]
    samples_per_second = {
        "one process, one core": 8 / medians([one_core], "local")[0],
        "one process, both cores": alone,
        "2 ranks, one MCCL all-reduce per parameter": 16 / stock_step,
        "2 ranks, nn.DistributedGradReducer": 16 / medians(stock, "grad_reducer")[0],
        "2 ranks, buckets over MPI": 16 / step,
        "2 ranks, no averaging": 16 / local,
        "4 ranks on 2 cores, buckets over MPI": 32 / medians(crowd, "averaged")[0],
    }
    per_core, of_crowd = (
        samples_per_second["one process, one core"],
        samples_per_second["4 ranks on 2 cores, buckets over MPI"],
    )
    rows = [
        at_most("step with averaging / without, pinned alike", step / local, 1.02, f"{step:.2f} s / {local:.2f} s"),
        at_least(
            "samples/s of 2 ranks / best single process on both cores", 16 / step / alone, 1.72,
            f"{16 / step:.2f} / {alone:.2f} per s",
        ),
        at_least(
            "samples/s of 2 ranks / one process on one core", 16 / step / per_core, 1.9,
            f"{16 / step:.2f} / {per_core:.2f} per s",
        ),
        at_least(
            "samples/s of 4 ranks on 2 cores / 2 ranks", of_crowd * step / 16, 1,
            f"{of_crowd:.2f} / {16 / step:.2f} per s",
        ),
        at_most(
            "seconds exposed / those of one blocking MCCL all-reduce per parameter", exposed / stock_exposed, 1 / 40,
            f"{exposed:.3f} s / {stock_exposed:.2f} s",
        ),
        at_most(
            "the same on the rank that is last, and does not wait for its peer", data_alone / stock_data_alone, 1 / 40,
            f"{data_alone:.3f} s / {stock_data_alone:.2f} s",
        ),
        at_most(
            "bytes handed to all-reduce / bytes of the gradients", sent / gradients, 1,
            f"{together[0]['all_reduces_per_step']:.0f} all-reduces a step",
        ),
    ]  # fmt: skip
    rows[1]["samples_per_second"] = samples_per_second
    return rows


@measurement
def memory(folder):
    """BERT-base, and nothing but the steps that are averaged."""
    ranks = run(folder / "two", "gradient_steps", "bert-base", 8, 2, "averaged", ranks=2, backend="mpi")
    (alone,) = run(folder / "one", "gradient_steps", "bert-base", 8, 2, "local", ranks=1)
    more, gradients = max(rank["peak_memory"] for rank in ranks) - alone["peak_memory"], alone["gradient_bytes"]
    detail = f"{more / 2**20:.0f} MB / {gradients / 2**20:.0f} MB"
    return [at_most("peak memory of a rank over a process's, in copies of the gradients", more / gradients, 1, detail)]


@measurement
def one_process(folder):
    """BERT-base in one process: the plugin's operators beside those MindNLP calls, by turns."""
    (result,) = run(folder / "one", "gradient_steps", "bert-base", 8, 5, "local", "stock_operators", ranks=1)
    with_plugin, without = (medians([result], way)[0] for way in ("local", "stock_operators"))
    detail = f"{with_plugin:.2f} s / {without:.2f} s"
    return [at_most("one process: step with the plugin / without", with_plugin / without, 1.005, detail)]


@measurement
def tiny_model(folder):
    """What the plugin itself takes, seen on a model of 40 parameters."""
    ranks = run(
        folder / "tiny", "trainer_steps", "tiny", 100, 4, "plugin", "host_work", "alone", ranks=2, backend="mpi"
    )  # fmt: skip
    plugin, host_work, alone = (slowest(ranks, way) for way in ("plugin", "host_work", "alone"))
    (gradients,) = {
        rank["gradient_bytes"]
        for rank in run(folder / "bytes", "gradient_steps", "tiny", 8, 1, "averaged", ranks=2, backend="mpi")
    }
    all_reduce = ring_all_reduce(gradients, 2, link_of(folder, "mpi"))
    cost = (plugin - alone - all_reduce) * 1e3
    return [
        at_most(
            "tiny model: ms a step over the same without averaging, the all-reduce's own time taken off", cost, 2,
            f"{plugin * 1e3:.1f} ms / {alone * 1e3:.1f} ms, all-reduce {all_reduce * 1e3:.2f} ms",
        ),
        at_most(
            "tiny model: step / the same with stock's work on the host left in", plugin / host_work, 0.85,
            f"{plugin * 1e3:.1f} ms / {host_work * 1e3:.1f} ms",
        ),
    ]  # fmt: skip


def link_of(folder, backend):
    """The link between two ranks, from all-reduces of nine sizes."""
    result = folder / "all_reduces.json"
    job = dict(ranks=2, backend=backend, log_dir=folder / "logs", timeout=TIMEOUT_S)
    run_ranks_successfully(REPOSITORY / "mindnlp_dp_plugin/bench/on_ranks.py", result, **job)
    measured = {int(size): seconds for size, seconds in json.loads(result.read_text()).items()}
    return fit_ring(list(measured), list(measured.values()), 2)


@measurement
def launchers(folder):
    """The same script under ``mindnlp-dp run`` and under plain msrun, each as it comes."""
    steps = 30
    ours = slowest(run(folder / "ours", "trainer_steps", "tiny", steps, 1, "plugin", ranks=2), "plugin")
    theirs = slowest(run_msrun(folder / "msrun", "trainer_steps", "tiny", steps, 1, "plugin"), "plugin")
    detail = f"{theirs * 1e3:.0f} ms / {ours * 1e3:.0f} ms a step"
    return [at_least("samples/s of plain mindnlp-dp run / plain msrun, tiny model", theirs / ours, 2.0, detail)]


def run_msrun(folder, program, *arguments):
    """The same under MindSpore's own launcher."""
    folder.mkdir(parents=True)
    msrun = [Path(sys.executable).with_name("msrun"), "--worker_num=2", "--local_worker_num=2", "--join=True"]
    place = [f"--master_port={free_port()}", f"--log_dir={folder / 'logs'}"]
    words = map(str, [*msrun, *place, PROGRAMS / f"{program}.py", folder, *arguments])
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([*words], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [json.loads((folder / f"{program}.rank{rank}.json").read_text()) for rank in range(2)]


def run_torch(python, folder, family, steps, rows, tokens, ranks):
    """What each rank of the peer left: ``programs/torch_trainer.py``, under torchrun if there are several."""
    folder.mkdir(parents=True)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", ranks, "--master-port", free_port()]
    words = [python, *(torchrun if ranks > 1 else []), PROGRAMS / "torch_trainer.py", folder]
    words += [family, steps, rows, tokens]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return [json.loads((folder / f"torch_trainer.rank{rank}.json").read_text()) for rank in range(ranks)]


@measurement
def torch_peer(folder):
    """BERT-base through both Trainers, 8 rows of 128 tokens per rank, AdamW and clipping included."""
    ours = slowest(run(folder / "ours", "trainer_steps", "bert-base", 5, 1, "plugin", ranks=2), "plugin")
    theirs = run_torch(TORCH, folder / "torch", "BERT-base", 5, 8, 128, ranks=2)
    torch = max(statistics.median(rank["seconds"]) for rank in theirs)
    detail = f"{16 / ours:.2f} / {16 / torch:.2f} per s"
    return [at_least("samples/s of 2 ranks / torch DDP + Gloo, Hugging Face Trainer", torch / ours, 0.85, detail)]


@measurement
def evaluation(folder):
    """``Trainer.evaluate()`` of BERT with 4 layers on 1,024 rows of 64 tokens."""
    one, two = evaluation_seconds(folder)
    with on_one_core():
        one_core = seconds_of_evaluation(folder / "one_core", 1)
    return [
        at_least("evaluation: 2 ranks over one process", one / two, 1.7, f"{one:.2f} s / {two:.2f} s"),
        at_least(
            "evaluation: 2 ranks over one process on one core", one_core / two, 1.9, f"{one_core:.2f} s / {two:.2f} s"
        ),
    ]


def evaluation_seconds(folder, env=None):
    """Of one process, and of 2 ranks."""
    return [seconds_of_evaluation(folder / f"evaluation_{ranks}", ranks, env) for ranks in (1, 2)]


def seconds_of_evaluation(output, ranks, env=None):
    output.mkdir()
    job = dict(ranks=ranks, backend="auto", log_dir=output / "logs", timeout=TIMEOUT_S, env=env)
    run_ranks_successfully(PROGRAMS / "evaluations.py", output, "bert-4", 1024, 3, **job)
    return statistics.median(json.loads((output / "seconds.json").read_text()))


@measurement
def with_mindnlps_operators(folder):
    """Again what is compared with one process on both cores, but all with the operators MindNLP calls."""
    steps = ("gradient_steps", "bert-base", 8, 3, "averaged")
    ranks = run(folder / "two", *steps, ranks=2, backend="mpi", env=MINDNLPS_OPERATORS)
    two = 16 / medians(ranks, "averaged")[0]
    one = best_alone(folder, MINDNLPS_OPERATORS)
    evaluated_alone, evaluated = evaluation_seconds(folder, MINDNLPS_OPERATORS)
    return [
        at_least(
            "with MindNLP's operators on both sides: samples/s of 2 ranks / best single process on both cores",
            two / one, 1.72, f"{two:.2f} / {one:.2f} per s",
        ),
        at_least(
            "with MindNLP's operators on both sides: evaluation, 2 ranks over one process",
            evaluated_alone / evaluated, 1.7, f"{evaluated_alone:.2f} s / {evaluated:.2f} s",
        ),
    ]  # fmt: skip


def table(rows):
    lines = ["| | measured | target | | |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        met = "met" if row["is_met"] else "**missed**"
        lines.append(f"| {row['what']} | {row['value']:.3f} | {row['limit']} | {met} | {row['detail']} |")
    return "\n".join(lines)


def draw(rows, path):
    """How far each is from its target: 1 is on it, more is better."""
    figure = Figure(figsize=(9, 0.5 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    for position, row in enumerate(reversed(rows)):
        limit = float(row["limit"][3:])
        margin = row["value"] / limit if row["limit"].startswith(">") else limit / max(row["value"], limit / 10)
        axes.barh(position, margin, color="tab:green" if row["is_met"] else "tab:red")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [row["what"] for row in reversed(rows)], fontsize=7)
    axes.set_xlabel("times as good as the target")
    figure.savefig(path, dpi=120)


def draw_rows_per_second(samples, path):
    """Who averages, and how fast: the figure of the README."""
    figure = Figure(figsize=(9, 2.3), layout="constrained")
    axes = figure.subplots()
    names, values = [*reversed(samples)], [*reversed(samples.values())]
    bars = axes.barh(names, values, color=["tab:blue" if "buckets over MPI" in name else "#bbbbbb" for name in names])
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.margins(x=0.08)
    axes.tick_params(labelsize=8)
    axes.set_xlabel("rows per second", fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main():
    global TORCH
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="a Python that has torch, transformers and accelerate")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS))
    wanted = parser.parse_args()
    TORCH = wanted.torch
    if TORCH is None and "torch_peer" in wanted.only:
        sys.exit("torch_peer needs --torch PYTHON, or leave it out by --only")
    # Measurements made again on the same day take the place of the older ones.
    known = results_file("speed", ".json")
    measured = json.loads(known.read_text())["measurements"] if known.exists() else {}
    folder = Path(tempfile.mkdtemp(prefix="mindnlp-dp-speed-"))
    try:
        for name in wanted.only:
            print(name, "...", flush=True)
            (folder / name).mkdir()
            measured[name] = MEASUREMENTS[name](folder / name)
            print(table(measured[name]), flush=True)
    finally:
        shutil.rmtree(folder)
    measured = {name: measured[name] for name in MEASUREMENTS if name in measured}
    rows = [row for of_one in measured.values() for row in of_one]
    path = write_results("speed", {"measurements": measured}, table(rows))
    draw(rows, path.with_suffix(".png"))
    for row in rows:
        if "samples_per_second" in row:
            draw_rows_per_second(row["samples_per_second"], REPOSITORY / "docs/figures/scaling.svg")


if __name__ == "__main__":
    main()
