"""What averaging dispatches on a device that is no CPU, counted from MindSpore's log, and what it makes there."""

import mindnlp_dp_plugin as dp  # isort: skip

from collections import Counter
from importlib.metadata import version

import mindspore
import numpy as np
import pytest
from packaging.version import Version

from benchmarks import host_work
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp import bucket
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket

dp.install()


@pytest.mark.skipif(Version(version("mindspore")) < Version("2.10"), reason="older MindSpores log operators otherwise")
def test_a_gradient_is_one_operator_in_and_one_out():
    found = host_work.count(2)
    assert found["dispatched"]["optimizer"]
    num_parameters, num_buckets = found["parameters"], found["buckets"]
    assert Counter(found["added"]["backward"]) + Counter(found["added"]["finish"]) == Counter(
        {"Reshape": 2 * num_parameters, "Concat": num_buckets, "Muls": num_buckets, "SplitWithSizeView": num_buckets}
    )
    assert sum(found["added"]["clip"].values()) <= 6 + 5 * num_buckets
    assert not found["added"]["optimizer"]


@pytest.mark.skipif(not bucket.VIEWS_CAN_BE_ASSIGNED, reason="MindSpore 2.7 splits no tensors on CPU")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_views_of_a_bucket_are_its_gradients(monkeypatch, dtype):
    chance = np.random.default_rng(0)
    values = [mindspore.Tensor(chance.standard_normal(shape).astype(dtype)) for shape in ((4, 5), (1,), (7,))]
    factor = mindspore.tensor(0.37, mindspore.float32)

    def handed_out():
        filled = DeviceBucket(values, SingleProcess())
        for index, gradient in enumerate(values):
            filled.put(index, gradient, None, 1 / 3)
        filled.start()
        gradients = filled.gradients()
        means = [gradient.asnumpy().copy() for gradient in gradients]
        filled.scale(gradients, factor)
        return means, [gradient.asnumpy() for gradient in gradients]

    expected = handed_out()
    monkeypatch.setattr(bucket, "is_on_cpu", lambda: False)
    found = handed_out()
    for ours, theirs, original in zip(zip(*found), zip(*expected), values):
        for mine, other in zip(ours, theirs):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == original.asnumpy().dtype and mine.shape == original.shape
