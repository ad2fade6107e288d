"""Start real ranks for a test, and leave none behind."""

import ast
import functools
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from tests.cores import cores_for

REPOSITORY = Path(__file__).parent.parent
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 900  # nothing takes a tenth of it, unless the machine is slow or does other work


def start(command, environ, cwd=None, cores=None) -> subprocess.Popen:
    """Start a command in a session of its own, with no standard input; ``environ`` is all of its environment, and
    ``cores`` are those it may use, all if None.
    """
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pinned = functools.partial(os.sched_setaffinity, 0, cores) if cores else None
    words = [str(word) for word in command]
    return subprocess.Popen(words, env=environ, cwd=cwd, start_new_session=True, preexec_fn=pinned, **pipes)


def finish(process, timeout) -> subprocess.CompletedProcess:
    """Wait for the end of what ``start`` has started; if it does not come in time, its whole process tree is killed."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except BaseException:
        kill_tree(process.pid)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(command, timeout=TIMEOUT_S, env=None, cwd=None, cores=None) -> subprocess.CompletedProcess:
    """Run a command to its end; ``env`` is added to this process's environment."""
    return finish(start(command, {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}, cwd, cores), timeout)


def kill_tree(pid):
    """Kill a process and all it started."""
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    tree = [*root.children(recursive=True), root]
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(tree, timeout=5)


def decorated_functions(program):
    """Names of the functions of a program that have a decorator, read from its text: importing it would run it."""
    functions = [node for node in ast.parse((PROGRAMS / program).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.decorator_list]


def run_ranks(program, *arguments, ranks, backend, log_dir, timeout=TIMEOUT_S, env=None, options=()):
    """Run a program of ``tests/programs`` (or a path) under ``mindnlp-dp run`` and return the finished launcher.

    It waits for a core for each rank: a rank on two would let MindSpore's threads spin on the second.
    """
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", ranks, "--backend", backend, *options]
    command += ["--log-dir", log_dir, PROGRAMS / program, *arguments]
    with cores_for(ranks) as cores:
        return run(command, timeout, env, cwd=log_dir.parent, cores=cores)


def run_ranks_successfully(*arguments, **keywords):
    """``run_ranks``, failing with everything the job printed unless it ends with 0."""
    finished = run_ranks(*arguments, **keywords)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished
