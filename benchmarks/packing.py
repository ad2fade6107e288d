"""Packing against padding and grouping by length: tokens per second on two ranks, padding not counted.

    python benchmarks/packing.py --data ../shared/data [--rows 6000]

A small Qwen2, trained from nothing for an epoch on conversations made of real texts: a user gives a sentence of sst2,
or a review of imdb_sample, and the assistant says whether it is positive. Some minutes; leave the machine idle
meanwhile. Writes .json and .md of benchmarks/results/packing_<hardware>_<date>.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from record import write_results

PROGRAM = Path(__file__).parent / "programs" / "packed_runs.py"
CASES = [("sst2", 128, 32), ("imdb_sample", 512, 8)]  # data set, tokens in a row, padded rows of a rank
WAYS = ("padded", "grouped", "packed")


def texts_of(folder):
    """Texts and whether they are positive."""
    if folder.name == "sst2":
        for line in (folder / "train.txt").read_text(encoding="utf-8").splitlines():
            yield line[2:], line[0] == "1"
        return
    with (folder / "reviews.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["text"], row["label"] in ("1", "positive", "pos")


def write_chats(path, folder, most):
    with path.open("w", encoding="utf-8") as file:
        for _, (text, is_positive) in zip(range(most), texts_of(folder)):
            answer = "positive" if is_positive else "negative"
            messages = [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
            file.write(json.dumps({"messages": messages}) + "\n")


def measure(data, name, max_length, rows_per_rank, most):
    with tempfile.TemporaryDirectory() as folder:
        chats = Path(folder, "chats.jsonl")
        write_chats(chats, data / name, most)
        words = [PROGRAM, folder, chats, max_length, rows_per_rank]
        command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 2, "--log-dir", f"{folder}/logs"]
        subprocess.run([str(word) for word in (*command, *words)], check=True)
        found = json.loads(Path(folder, "runs.json").read_text(encoding="utf-8"))
    return {"data": name, "max_length": max_length, **found}


def summarise(cases):
    lines = [
        "| data | row | chats | packed rows | full | way | rows a rank | steps | tokens/s | over padded |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        speeds = {way: case["runs"][way]["tokens"] / case["runs"][way]["seconds"] for way in WAYS}
        for way in WAYS:
            run = case["runs"][way]
            lines.append(
                f"| {case['data']} | {case['max_length']} | {case['chats']} | {case['packed_rows']} "
                f"| {case['fullness']:.1%} | {way} | {run['rows_per_rank']} | {run['steps']} "
                f"| {speeds[way]:.0f} | {speeds[way] / speeds[WAYS[0]]:.2f} |"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2 and imdb_sample")
    parser.add_argument("--rows", type=int, default=6000, help="at most so many conversations of each")
    arguments = parser.parse_args()
    cases = [measure(arguments.data.absolute(), *case, arguments.rows) for case in CASES]
    write_results("packing", {"cases": cases}, summarise(cases))


if __name__ == "__main__":
    main()
