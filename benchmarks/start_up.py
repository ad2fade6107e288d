"""How long it takes until something happens: ``python benchmarks/start_up.py [--rounds 5]``, on an idle machine.

Medians of seconds: the command line's help; the import of MindNLP, with the plugin's quicker import and without it, in
turns; that of plugin, Trainer and BERT, beside MindSpore's alone; and from ``mindnlp-dp run`` on 2 ranks until the
first step begins, beside one process. Then what a rank's imports take, by package, up to its first compiled loop.
Writes ``benchmarks/results/start-up_<cpu>_<date>.json`` and ``.md``.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import REPOSITORY, run_ranks_successfully

IMPORTS = """
import os, time
{before}
began = time.perf_counter(), time.process_time()
{imports}
print("took", time.perf_counter() - began[0], time.process_time() - began[1])
"""
COMPAT = 'os.environ["MINDNLP_DP_DEFERRED"] = "1"\nfrom mindnlp_dp_plugin import compat\n'
ONLY_PATCHES = f"{COMPAT}for patch in compat.PATCHES:\n    patch.schedule()"
ALL_OF_IT = "import mindnlp_dp_plugin, mindnlp.engine\nfrom mindnlp.transformers import BertForSequenceClassification"
FIRST_STEP = """
import mindnlp_dp_plugin as dp
import sys, time
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from tests.programs.tiny import tiny_dataset, tiny_model
class Begin(TrainerCallback):
    def on_step_begin(self, *arguments, **keywords):
        if dp.get_rank() == 0:
            open(sys.argv[1], "w").write(repr(time.time()))
arguments = TrainingArguments(sys.argv[1] + ".d", max_steps=1, save_strategy="no", disable_tqdm=True)
Trainer(tiny_model(), arguments, train_dataset=tiny_dataset(num_rows=16), callbacks=[Begin()]).train()
"""
FIRST_LOOP = """
import mindnlp_dp_plugin, mindnlp.engine
import numpy as np
from mindnlp_dp_plugin.cpu_operators.compiled import largest_of_rows
largest_of_rows(np.ones((1, 1), np.float32))
"""
IMPORTED = re.compile(r"import time: +(\d+) \| +\d+ \| +(\w+)")
NUM_PACKAGES = 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    seconds = {what: [] for what in MEASURED}
    for _ in track(range(rounds), "start-up"):
        for what, measure in MEASURED.items():
            seconds[what].append(measure())
    lines = ["| seconds, median | wall clock | processor |", "| --- | --- | --- |"]
    for what, taken in seconds.items():
        wall, *processor = (f"{statistics.median(each):.2f}" for each in zip(*taken))
        lines.append(f"| {what} | {wall} | {''.join(processor)} |")
    packages = seconds_by_package()
    lines += ["", "| imported package | seconds of its own modules |", "| --- | --- |"]
    lines += [f"| {package} | {taken:.2f} |" for package, taken in packages.most_common(NUM_PACKAGES)]
    lines += [f"| all {len(packages)} | {packages.total():.2f} |"]
    write_results("start-up", {"seconds": seconds, "packages": packages}, "\n".join(lines))


def of_help():
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mindnlp_dp_plugin.cli", "--help"], check=True, capture_output=True)
    return [time.perf_counter() - began]


def of_import(imports, before=""):
    code = IMPORTS.format(before=before, imports=imports)
    finished = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=REPOSITORY)
    (line,) = (line for line in finished.stdout.splitlines() if line.startswith("took"))
    return [float(word) for word in line.split()[1:]]


def seconds_by_package():
    """What Python's own clock, which slows imports a little, says of each package that one process imports."""
    command = [sys.executable, "-X", "importtime", "-c", FIRST_LOOP]
    finished = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    taken = Counter()
    for microseconds, package in IMPORTED.findall(finished.stderr):
        taken[package] += int(microseconds) / 1e6
    return taken


def of_first_step(ranks, backend):
    with tempfile.TemporaryDirectory() as name:
        script, noted = Path(name, "script.py"), Path(name, "began")
        script.write_text(FIRST_STEP)
        began = time.time()
        run_ranks_successfully(script, noted, ranks=ranks, backend=backend, log_dir=Path(name, "logs"))
        return [float(noted.read_text()) - began]


MEASURED = {
    "`mindnlp-dp --help`": of_help,
    "import of MindNLP as it is": lambda: of_import("import mindnlp.engine", ONLY_PATCHES),
    "import of MindNLP by the plugin": lambda: of_import("import mindnlp.engine", f"{COMPAT}compat.bridge()"),
    "import of MindSpore alone": lambda: of_import("import mindspore"),
    "import of plugin, Trainer and BERT": lambda: of_import(ALL_OF_IT),
    "until the first step, one process": lambda: of_first_step(1, "auto"),
    "until the first step, 2 ranks, MPI": lambda: of_first_step(2, "mpi"),
    "until the first step, 2 ranks, MCCL": lambda: of_first_step(2, "mccl"),
}

if __name__ == "__main__":
    main()
