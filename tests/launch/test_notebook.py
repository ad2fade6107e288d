"""``dp.notebook_launcher`` in a real Jupyter kernel, with real ranks."""

import os
import signal
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import JOB
from mindnlp_dp_plugin.launch.notebook import notebook_launcher
from tests.harness import REPOSITORY, TIMEOUT_S, run
from tests.launch.conftest import Runner

LAUNCHER = "import os, sys, threading, time\nfrom mindnlp_dp_plugin.launch.notebook import notebook_launcher"


@dataclass
class Cell:
    """What a cell has shown, and how it ended."""

    shown: list[tuple[float, str, str]] = field(default_factory=list)
    error: dict | None = None

    def text(self, stream):
        """All that went to a stream."""
        return "".join(text for _, name, text in self.shown if name == stream)


class Notebook:
    """A kernel of Jupyter's; the processes that it starts are found by the runner's marker."""

    def __init__(self, runner):
        self.runner = runner
        self.kernel = KernelManager(kernel_name="python3")
        self.kernel.start_kernel(env=runner.environ, cwd=str(runner.folder))
        self._client = self.kernel.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=300)
        self.run(LAUNCHER)

    def run(self, code, as_it_comes=lambda text: None):
        """Run a cell to its end; ``as_it_comes`` gets each text that it shows."""
        cell = Cell()

        def note(message):
            if message["msg_type"] == "stream":
                content = message["content"]
                cell.shown.append((time.monotonic(), content["name"], content["text"]))
                as_it_comes(content["text"])
            if message["msg_type"] == "execute_result":
                cell.shown.append((time.monotonic(), "result", message["content"]["data"]["text/plain"]))

        reply = self._client.execute_interactive(code, output_hook=note, timeout=300)["content"]
        cell.error = reply if reply["status"] == "error" else None
        return cell

    def left_behind(self):
        """Living processes, but for the kernel."""
        return [process for process in self.runner.left_behind() if process.pid != self.kernel.provisioner.pid]

    def end(self):
        """End the kernel, and whatever is left."""
        self._client.stop_channels()
        self.kernel.shutdown_kernel(now=True)
        self.runner.clean_up()


@contextmanager
def opened(folder):
    notebook = Notebook(Runner(folder))
    try:
        yield notebook
    finally:
        notebook.end()


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("notebook")) as notebook:
        yield notebook


@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_rank_0_is_shown_as_it_comes_and_its_value_comes_back(notebook, backend):
    cell = notebook.run(f"""
os.environ["MINDNLP_DP_BACKEND"] = "{backend}"
def train(steps, word):
    rank = int(os.environ["RANK"])
    for step in range(steps):
        print(f"\\r{{step}} of rank {{rank}}", end="", file=sys.stderr)
        time.sleep(0.4)
    print()
    return {{"word": word, "ranks": os.environ["WORLD_SIZE"], "rank": rank}}
notebook_launcher(train, args=(4, "done"), nproc=3)
""")
    assert cell.error is None
    assert cell.text("result") == "{'word': 'done', 'ranks': '3', 'rank': 0}"
    assert cell.text("stdout") == "".join(f"\r{step} of rank 0" for step in range(4)) + "\n"
    assert cell.text("stderr").splitlines()[-1].startswith("mindnlp-dp: all ranks are done; logs: mindnlp_dp_logs/")
    times = [when for when, name, _ in cell.shown if name == "stdout"]
    assert times[-1] - times[0] > 0.7
    assert not notebook.left_behind()


def test_functions_classes_and_modules_of_the_notebook_reach_the_ranks_and_come_back(notebook):
    (notebook.runner.folder / "elsewhere").mkdir()
    (notebook.runner.folder / "beside.py").write_text("def double(number): return 2 * number\n")
    (notebook.runner.folder / "elsewhere" / "further.py").write_text("TEN = 10\n")
    notebook.run("""
sys.path.append(os.path.abspath("elsewhere"))
import beside, further
class Scores:
    def __init__(self, total): self.total = total
    def __eq__(self, other): return type(self) is type(other) and self.total == other.total
offset = 1
def add(number): return number + offset + further.TEN
def train(number): return Scores(beside.double(add(number)))
""")
    assert notebook.run("notebook_launcher(train, (5,)) == Scores(32)").text("result") == "True"
    assert (
        notebook.run("offset = 2; notebook_launcher(lambda: train(5), nproc=1) == Scores(34)").text("result") == "True"
    )


def test_an_exception_shows_the_traceback_of_the_rank_that_failed_first(notebook):
    cell = notebook.run("""
def broken(label):
    raise ValueError(f"no such label: {label}")
def train():
    print("before", flush=True)
    if os.environ["RANK"] == "1":
        time.sleep(0.5)
        broken(7)
    time.sleep(60)
notebook_launcher(train)
""")
    assert cell.error["ename"] == "DataParallelError"
    lines = cell.error["evalue"].splitlines()
    assert lines[0].startswith("rank 1 on ") and lines[0].endswith(" failed first: ValueError, exit status 1")
    assert lines[1] == "Traceback (most recent call last):"
    assert [line.strip() for line in lines[2:6] if not line.strip().startswith("File")] == [
        "broken(7)",
        'raise ValueError(f"no such label: {label}")',
    ]
    assert "ValueError: no such label: 7" in lines
    assert lines[-1].endswith("rank_1.log")
    assert cell.text("stdout") == "before\n"
    assert "Traceback" not in cell.text("stderr")
    assert not notebook.left_behind()


def test_a_killed_rank_is_named(notebook):
    cell = notebook.run(
        "notebook_launcher(lambda: os.kill(os.getpid(), 9) if os.environ['RANK'] == '1' else time.sleep(60))"
    )
    assert cell.error["ename"] == "DataParallelError"
    assert "rank 1 on " in cell.error["evalue"] and "killed by SIGKILL (signal 9)" in cell.error["evalue"]
    assert not notebook.left_behind()


def test_an_interrupt_ends_all_ranks_and_the_kernel_goes_on(notebook):
    interrupted_at = []

    def interrupt(text):
        if "working" in text:
            interrupted_at.append(time.monotonic())
            notebook.kernel.interrupt_kernel()

    cell = notebook.run(
        "notebook_launcher(lambda: (print('working', flush=True), time.sleep(600)), nproc=3)", interrupt
    )
    assert time.monotonic() - interrupted_at[0] < 15
    assert cell.error["ename"] == "KeyboardInterrupt"
    assert "mindnlp-dp: stopped by SIGINT, all ranks were ended" in cell.text("stderr")
    assert not notebook.left_behind()
    assert notebook.run("notebook_launcher(lambda: 1 + 1)").text("result") == "2"


def test_an_interrupt_before_the_ranks_have_begun_leaves_nothing(notebook):
    threading.Timer(0.3, notebook.kernel.interrupt_kernel).start()
    cell = notebook.run("notebook_launcher(time.sleep, (600,))")
    assert cell.error["ename"] == "KeyboardInterrupt"
    assert "Traceback" not in cell.text("stderr")
    assert not notebook.left_behind()


LOCK = "cannot be sent to the ranks (TypeError: cannot pickle '_thread.lock' object)"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            """
            lock = threading.Lock()
            def helper(): return [lock for _ in range(3)]
            def train(): helper()
            notebook_launcher(train)
            """,
            f"'lock', a lock, {LOCK}",
        ),
        (
            "notebook_launcher(print, (1, threading.Lock()))",
            f"'args[1]', a lock, {LOCK}",
        ),
        (
            """
            log = open("log.txt", "w")
            class Data:
                def read(self): return log
            notebook_launcher(lambda: Data().read())
            """,
            "'log', a TextIOWrapper, cannot be sent to the ranks (PicklingError: Cannot pickle files that are not "
            "opened for reading: w)",
        ),
        (
            """
            def make(lock):
                def train(): return lock
                return train
            notebook_launcher(make(threading.Lock()))
            """,
            f"'make.<locals>.train', a function, {LOCK}",
        ),
        (
            """
            class Settings:
                def __init__(self): self.lock = threading.Lock()
            settings, fine, also_fine = Settings(), Settings, Exception()
            notebook_launcher(lambda: (settings, fine, also_fine))
            """,
            f"'settings', a Settings, {LOCK}",
        ),
        (
            "notebook_launcher(threading.Lock().acquire)",
            f"'lock.acquire', a builtin_function_or_method, {LOCK}",
        ),
    ],
    ids=[
        "a variable of a function that is called",
        "an argument",
        "of a method",
        "of a closure",
        "in a variable",
        "the function itself",
    ],
)
def test_what_cannot_be_sent_is_named_in_a_line(notebook, code, line):
    cell = notebook.run(textwrap.dedent(code))
    line += ": build it, or what it holds, inside the function."
    assert (cell.error["ename"], cell.error["evalue"]) == ("DataParallelError", line)


def test_a_value_that_cannot_come_back_is_named(notebook):
    cell = notebook.run("notebook_launcher(threading.Lock)")
    assert cell.error["evalue"].splitlines()[1] == (
        "DataParallelError: what the function returned, a lock, cannot be sent back to the notebook (TypeError: cannot "
        "pickle '_thread.lock' object): return numbers, arrays, or the path of what was saved."
    )


def test_a_call_in_a_rank_is_refused_by_name(notebook):
    cell = notebook.run("notebook_launcher(lambda: notebook_launcher(print))")
    assert "DataParallelError: dp.notebook_launcher was called in rank " in cell.error["evalue"]


def test_ranks_end_when_the_kernel_is_killed(tmp_path):
    class Killed(Exception):
        """No reply will come."""

    with opened(tmp_path) as notebook:

        def kill(text):
            if "working" in text:
                os.kill(notebook.kernel.provisioner.pid, signal.SIGKILL)
                raise Killed

        with pytest.raises(Killed):
            notebook.run("notebook_launcher(lambda: (print('working', flush=True), time.sleep(600)))", kill)
        notebook.runner.require_nothing_left(60)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((5,), "and 5 is not one"),
        ((print, 5), r"give args=\(5,\), with a comma"),
        ((print, (), 0), "nproc=0 is not a number of ranks"),
        ((print, (), "2"), "nproc='2' is not a number of ranks"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(given, words):
    with pytest.raises(DataParallelError, match=words):
        notebook_launcher(*given)


def test_a_missing_cloudpickle_is_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(DataParallelError, match=r"pip install 'mindnlp-dp-plugin\[notebook\]'"):
        notebook_launcher(print)


def test_a_rank_of_another_launcher_is_refused(monkeypatch):
    monkeypatch.setenv(JOB, "a job")
    with pytest.raises(DataParallelError, match="was called in rank 0 of a job"):
        notebook_launcher(print)


def test_the_kernel_needs_no_mindspore():
    code = "import mindnlp_dp_plugin as dp, sys; dp.notebook_launcher; print({'mindspore', 'mindnlp'} & {*sys.modules})"
    assert run([sys.executable, "-c", code]).stdout == "set()\n"


def value_of(outputs):
    (shown,) = (output["data"]["text/plain"] for output in outputs if "data" in output)
    return float(shown)


def test_the_example_trains_on_two_ranks_and_starts_a_recipe(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    example = nbformat.read(REPOSITORY / "examples" / "notebook.ipynb", as_version=4)
    NotebookClient(example, timeout=TIMEOUT_S, resources={"metadata": {"path": str(tmp_path)}}).execute()
    by_cell = {cell.source.splitlines()[0]: cell.outputs for cell in example.cells if cell.cell_type == "code"}
    training = by_cell["scores = dp.notebook_launcher(train, args=(1000, 2), nproc=2)"]
    shown, said = (
        "".join(output.text for output in training if output.get("name") == name) for name in ("stdout", "stderr")
    )
    assert "'train_loss'" in shown and "all ranks are done" in said
    assert value_of(training) > 0.8
    assert (tmp_path / "notebook_output" / "model" / "config.json").exists()
    assert 0 <= value_of(by_cell["import json"]) <= 1
