"""Start real ranks for a test, and leave none behind."""

import ast
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parent.parent
PROGRAMS = Path(__file__).parent / "programs"


def run(command, timeout=300, env=None, cwd=None):
    """Run a command to its end and return the finished process; its whole process tree is gone afterwards.

    Its standard input is empty.
    """
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except BaseException:
        kill_tree(process.pid)
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def kill_tree(pid):
    """Kill a process and all it started."""
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    family = [*root.children(recursive=True), root]
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=5)


def decorated_functions(program):
    """Names of the functions of a program that have a decorator, read from its text: importing it would run it."""
    functions = [node for node in ast.parse((PROGRAMS / program).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.decorator_list]


def run_ranks(program, *arguments, ranks, backend, log_dir, timeout=300, env=None, options=()):
    """Run a program of ``tests/programs`` (or a path) under ``mindnlp-dp run`` and return the finished launcher."""
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", ranks, "--backend", backend, *options]
    return run([*command, "--log-dir", log_dir, PROGRAMS / program, *arguments], timeout, env, cwd=log_dir.parent)


def run_ranks_successfully(*arguments, **keywords):
    """``run_ranks``, failing with everything the job printed unless it ends with 0."""
    finished = run_ranks(*arguments, **keywords)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished
