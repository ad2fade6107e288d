"""What a device can compute at most: set, known, measured, or nobody knows."""

import mindnlp_dp_plugin  # noqa: F401  # isort: skip

import re

import mindspore
import pytest

from mindnlp_dp_plugin.trainers.observe import peak
from tests.harness import REPOSITORY


def test_of_a_cpu_nobody_knows_it_and_a_setting_says_it():
    assert peak.device_name() == "CPU"
    assert peak.peak_tflops(None) is None
    assert peak.peak_tflops(313) == 313.0


def test_what_is_measured_is_the_rate_of_a_product_that_nothing_exceeds_by_far():
    measured = peak.peak_tflops("measured")
    matrix = mindspore.ops.ones((512, 512))
    rate = 2 * 512**3 / peak.seconds_of(lambda: mindspore.ops.matmul(matrix, matrix).asnumpy()) / 1e12
    assert 0.25 * rate < measured < 10, "TFLOPS of some cores"


@pytest.mark.parametrize("page", ["tracking.md", "tracking.zh.md"])
def test_the_page_has_each_peak_that_is_known(page):
    text = (REPOSITORY / "docs/guide" / page).read_text(encoding="utf-8")
    found = {}
    for names, peaks in re.findall(r"^\| (?:Ascend|昇腾) (910.*?) \| ([\d.,、 ]+) \|", text, re.MULTILINE):
        names = re.split(", |、", names)
        full = [names[0]] + [f"910{name}" for name in names[1:]]
        found |= zip((f"Ascend{name}" for name in full), map(float, re.split(", |、", peaks)), strict=True)
    assert found == {name: round(value, 2) for name, value in peak.KNOWN.items()}
