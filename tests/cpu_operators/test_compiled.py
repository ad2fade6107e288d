"""Loops compiled by numba: their arithmetic, and where their machine code is kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mindnlp_dp_plugin.cpu_operators import activations, cross_entropy
from mindnlp_dp_plugin.cpu_operators.compiled import compiled, exponential, largest_of_rows
from tests.harness import REPOSITORY, run

EDGES = np.array(
    [0, -0.0, 1, -1, 87, 88.5, 88.72, 89, -86, -87.3, -88, -200, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32
)

# Prints the digits of a GELU, computed by a loop that this process compiles or finds compiled.
GELU = """
import numpy as np
from mindnlp_dp_plugin.cpu_operators.activations import _exact
{begin}
y, slope = np.empty((2, 3), np.float32)
_exact(np.array([-1, 0, 2], np.float32), y, slope)
print("GELU:", y.tolist())
"""
SQUARE = """
import numpy as np
@compiled
def square(x):
    for i in range(x.size):
        x[i] *= x[i]
    return x
"""
WITHOUT_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"


@compiled
def exponentials(x, y):
    for i in range(x.size):
        y[i] = exponential(x[i])


def exponentials_of(x):
    y = np.empty_like(x)
    exponentials(x, y)
    return y


def sums_of_one(x):
    """The same within a loop whose sums may be added up in another order."""
    sums = np.empty_like(x)
    cross_entropy._add_up(x[:, None], np.zeros_like(x), sums)
    return sums


@pytest.mark.parametrize("function", [exponentials_of, sums_of_one])
def test_the_exponential_is_off_by_less_than_its_last_bit(function):
    x = np.linspace(-87.33, 88.3, 2_000_003).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(function(x) - exact) < np.spacing(exact.astype(np.float32))).all()


def test_the_exponential_of_edges():
    with np.errstate(all="ignore"):
        expected = np.exp(EDGES)
    expected[expected < np.finfo(np.float32).tiny] = 0
    np.testing.assert_allclose(exponentials_of(EDGES), expected, rtol=1e-6)


@pytest.mark.parametrize("length", [1, 3, 16, 100])
def test_the_largest_of_rows(length):
    chance = np.random.default_rng(length)
    rows = chance.standard_normal((300, length)).astype(np.float32)
    rows[:200][chance.random((200, length)) < 0.1] = -np.inf
    rows[:100][chance.random((100, length)) < 0.1] = np.inf
    rows[:50][chance.random((50, length)) < 0.1] = np.nan
    rows[-1] = -np.inf
    np.testing.assert_array_equal(largest_of_rows(rows), rows.max(-1))


@pytest.mark.parametrize("activation", [*activations.FORMS.values(), activations._by_sigmoid])
def test_bits_do_not_depend_on_the_place(activation):
    x = np.concatenate([np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 4, EDGES])
    whole, apart = np.empty((2, 2, x.size), np.float32)
    activation(x, *whole)
    for begin, end in ((0, 1), (1, 8), (8, 777), (777, x.size)):
        activation(x[begin:end], *(values[begin:end] for values in apart))
    np.testing.assert_array_equal(whole, apart)


def test_a_row_s_sum_does_not_depend_on_its_place():
    x = np.random.default_rng(0).standard_normal((60, 501)).astype(np.float32)
    largest, (whole, apart) = largest_of_rows(x), np.empty((2, 60), np.float32)
    cross_entropy._add_up(x, largest, whole)
    for row in range(60):
        rows = slice(row, row + 1)
        cross_entropy._add_up(x[rows].copy(), largest[rows], apart[rows])
    np.testing.assert_array_equal(whole, apart)


def computed(env, begin="", first=""):
    finished = run([sys.executable, "-c", first + GELU.format(begin=begin)], env=env)
    assert finished.returncode == 0, finished.stderr
    return gelu_in(finished.stdout)


def gelu_in(stdout):
    (line,) = (line for line in stdout.splitlines() if line.startswith("GELU: "))
    return line


def kept(folder):
    return sorted(path for path in folder.rglob("*_exact*") if path.suffix == ".nbc")


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A folder of machine code, and what was computed by the process that compiled it."""
    folder = tmp_path_factory.mktemp("compiled") / "once"
    return folder, computed({"NUMBA_CACHE_DIR": str(folder)})


@pytest.fixture
def cache(tmp_path, compiled_once):
    """A copy of that folder."""
    return shutil.copytree(compiled_once[0], tmp_path / "cache")


def test_machine_code_is_kept_and_found(cache, compiled_once):
    (found,) = kept(cache)
    before = found.stat()
    assert computed({"NUMBA_CACHE_DIR": str(cache)}) == compiled_once[1]
    assert (found.stat().st_ino, found.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_processes_that_compile_at_the_same_time_agree(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", GELU.format(begin="")]
    processes = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {gelu_in(process.communicate(timeout=300)[0]) for process in processes}
    assert [process.returncode for process in processes] == [0] * 4 and len(printed) == 1
    assert kept(tmp_path)


@pytest.mark.parametrize("suffix, num_bytes", [(".nbi", 100), (".nbc", 0)])
def test_damaged_files_are_made_anew(cache, compiled_once, suffix, num_bytes):
    (found,) = (path for path in cache.rglob("*_exact*") if path.suffix == suffix)
    damaged = found.read_bytes()[:num_bytes]
    found.write_bytes(damaged)
    assert computed({"NUMBA_CACHE_DIR": str(cache)}) == compiled_once[1]
    assert found.read_bytes() != damaged


def test_machine_code_of_other_arithmetic_is_not_taken(tmp_path):
    """numba compares the file of a loop alone, here that of GELU, not that of the exponential."""
    env = {"NUMBA_CACHE_DIR": str(tmp_path)}
    half = "compiled.HALF = np.float32(0.25); compiled.SOURCE = 'changed'\n"
    change = "import numpy as np; from mindnlp_dp_plugin.cpu_operators import compiled; " + half
    assert computed(env, first=change) != computed(env)


def test_a_full_disk_is_no_failure(tmp_path, compiled_once):
    assert computed({"NUMBA_CACHE_DIR": str(tmp_path)}, WITHOUT_DISK) == compiled_once[1]


def test_nowhere_to_write_is_no_failure():
    """numba finds no folder for a function without a file: as for a user without a home in root's installation."""
    loop = "from mindnlp_dp_plugin.cpu_operators.compiled import compiled\n" + SQUARE
    finished = run([sys.executable, "-c", loop + "print(square(np.full(2, 3, np.float32)))"])
    assert "[9. 9.]" in finished.stdout.splitlines(), finished.stderr


def test_devices_do_without_numba():
    script = "import sys, mindnlp_dp_plugin, mindnlp_dp_plugin.ddp; assert 'numba' not in sys.modules"
    finished = run([sys.executable, "-c", script], env={"MINDNLP_DP_CPU_OPERATORS": "0"})
    assert finished.returncode == 0, finished.stderr


def test_nothing_is_kept_in_the_repository():
    """Git ignores what numba writes beside the sources."""
    ignored = subprocess.run(
        ["git", "check-ignore", Path("mindnlp_dp_plugin", "cpu_operators", "__pycache__", "adam.nbc")], cwd=REPOSITORY
    )
    assert ignored.returncode == 0
