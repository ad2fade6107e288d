"""On one processor a result has the same bits for any number of threads, whichever kernels its BLAS takes."""

import sys
from pathlib import Path

import pytest

from tests.harness import run

NEEDED = {
    "Prescott": "pni", "Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512vl",
    "Cooperlake": "avx512_bf16",
}  # fmt: skip
QUICK = ("Zen",)


@pytest.mark.parametrize(
    "kernels", [*QUICK, *(pytest.param(k, marks=pytest.mark.slow) for k in NEEDED if k not in QUICK)]
)
def test_bits_do_not_depend_on_threads(kernels):
    if NEEDED[kernels] not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"the processor has no {NEEDED[kernels]}")
    finished = run([sys.executable, "-m", "tests.programs.bits_by_threads"], env={"OPENBLAS_CORETYPE": kernels})
    assert finished.returncode == 0, finished.stderr
