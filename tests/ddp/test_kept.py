"""A rank that keeps runs of gradients has the numbers of one that keeps all."""

import mindspore
import numpy as np
import pytest

from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket, HostBucket
from mindnlp_dp_plugin.ddp.kept import KeptRuns

RUNS = [(2, 11), None, (0, 1), (0, 7)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bucket_type", [HostBucket, DeviceBucket])
def test_runs_are_scaled_as_whole_gradients_are(bucket_type, dtype):
    chance = np.random.default_rng(0)
    values = [mindspore.Tensor(chance.standard_normal(shape).astype(dtype)) for shape in ((4, 5), (3,), (1,), (7,))]
    bucket = bucket_type(values, SingleProcess())
    for index, gradient in enumerate(values):
        bucket.put(index, gradient, None, 1 / 3)
    bucket.start()
    whole = bucket.gradients()
    kept = KeptRuns(bucket, whole, RUNS)
    assert kept.squares() == bucket.squares()

    factor = mindspore.tensor(0.37, mindspore.float32)
    kept.scale(kept.gradients, factor)
    bucket.scale(whole, factor)
    assert [gradient is None for gradient in kept.gradients] == [run is None for run in RUNS]
    for gradient, run, expected in zip(kept.gradients, RUNS, whole):
        if run:
            np.testing.assert_array_equal(gradient.asnumpy(), expected.asnumpy().reshape(-1)[slice(*run)])
            assert gradient.dtype == expected.dtype
