"""Oracle, evaluation, resume, families and the tests without ranks on every Python and MindSpore: ``make matrix``.

    python benchmarks/versions.py [--python 3.10 ...] [--mindspore 2.7.0 ...]

Makes a virtual environment for each pair, in ``build/versions``, and runs the tests there. Each ``python3.x`` is to
be on the path (with pyenv: ``pyenv shell 3.11 3.10 3.12``); one that is not is said to be missing. The newest
MindSpore also runs without the extra [cpu], all but the tests without ranks. Takes two hours:
what was run before is kept until it is run again. Writes ``benchmarks/results/versions_<cpu>_<date>.json`` and
``.md``, and the table of ``docs/versions.md`` and of its translation.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import date
from itertools import product
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import RESULTS, write_results
from tests.harness import REPOSITORY

PYTHONS = ("3.10", "3.11", "3.12")
WITHOUT_CPU = "2.10.0-without-cpu"
MINDSPORES = ("2.7.0", "2.8.0", "2.9.0", "2.10.0", WITHOUT_CPU)
WHAT = {what: [f"tests/distributed/test_{what}.py"] for what in ("oracle", "evaluation", "resume", "families")}
WITHOUT_RANKS = "without ranks"
WHAT[WITHOUT_RANKS] = ["--numprocesses", "2", "--dist", "loadfile", "-m", "not slow and not ranks"]
NO_WHEEL = ("3.12", "2.7.0")  # 2.7.2 is the first for Python 3.12
PAGES = [REPOSITORY / "docs" / name for name in ("versions.md", "versions.zh.md")]
SUMMARY = re.compile(r"(?:\d+ failed, )?\d+ passed")
AS_EXPECTED = re.compile(r"\d+ passed|no wheel")
OWN_PYTHON = "{}.{}".format(*sys.version_info)


def environment(python, mindspore):
    """The Python of a virtual environment with the project and that MindSpore."""
    interpreter = sys.executable if python == OWN_PYTHON else shutil.which(f"python{python}")
    if interpreter is None:
        return None
    home = REPOSITORY / "build/versions" / f"{python}-{mindspore}"
    inside = home / "bin/python"
    if not (home / "made").exists():
        subprocess.run([interpreter, "-m", "venv", home], check=True)
        extras, *tools = ["mpi,recipes", "pytest", "hypothesis"] if mindspore == WITHOUT_CPU else ["dev"]
        install = [inside, "-m", "pip", "install", "--quiet", "--editable", f"{REPOSITORY}[{extras}]"]
        subprocess.run([*install, *tools, f"mindspore=={mindspore.partition('-')[0]}"], check=True)
        (home / "made").touch()
    return inside


def check(python, mindspore):
    """For each kind of test, how it ended."""
    if (python, mindspore) == NO_WHEEL:
        return dict.fromkeys(WHAT, "no wheel")
    try:
        inside = environment(python, mindspore)
    except subprocess.CalledProcessError:
        return dict.fromkeys(WHAT, "not installable")
    if inside is None:
        return dict.fromkeys(WHAT, "no such Python here")
    wanted = [what for what in WHAT if (what, mindspore) != (WITHOUT_RANKS, WITHOUT_CPU)]  # those have tools of [dev]
    return {what: run_tests(inside, what) for what in wanted}


def run_tests(python, what):
    env = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    words = [python, "-m", "pytest", *WHAT[what]]
    finished = subprocess.run(words, cwd=REPOSITORY, env=env, capture_output=True, text=True)
    if finished.returncode:
        print(finished.stdout, finished.stderr, sep="\n")
    summary = SUMMARY.findall(finished.stdout)[-1:]  # MindSpore 2.7 prints a line of its own behind it
    return f"{'FAILED: ' if finished.returncode else ''}{''.join(summary)}"


def known_results():
    """Of each pair that was run before, the latest result."""
    of_pair = {}
    for path in sorted(RESULTS.glob("versions_*.json"), key=lambda path: path.stem.rpartition("_")[2]):
        of_pair |= {(row["python"], row["mindspore"]): row for row in json.loads(path.read_text())["results"]}
    return of_pair


def table(results):
    columns = ("python", "mindspore", *WHAT, "date")
    lines = ["| Python | MindSpore | " + " | ".join(columns[2:]) + " |", "| --- " * len(columns) + "|"]
    lines += ["| " + " | ".join(result.get(column, "not run") for column in columns) + " |" for result in results]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", nargs="+", default=PYTHONS, choices=PYTHONS)
    parser.add_argument("--mindspore", nargs="+", default=MINDSPORES, choices=MINDSPORES)
    wanted = parser.parse_args()
    for pair in track(list(product(wanted.python, wanted.mindspore)), "versions"):
        result = {"python": pair[0], "mindspore": pair[1], **check(*pair), "date": str(date.today())}
        print(result, flush=True)
        of_pair = known_results() | {pair: result}  # another process may have run others meanwhile
        results = [of_pair[pair] for pair in product(PYTHONS, MINDSPORES) if pair in of_pair]
        write_results("versions", {"results": results}, table(results))
        for page in PAGES:
            page.write_text(page.read_text().partition("| Python | MindSpore")[0] + table(results) + "\n")
    ran = [of_pair[pair] for pair in product(wanted.python, wanted.mindspore)]
    sys.exit(not all(AS_EXPECTED.fullmatch(row[what]) for row in ran for what in WHAT if what in row))


if __name__ == "__main__":
    main()
