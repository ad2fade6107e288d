"""A rank that keeps its part of the gradients has the numbers of one that keeps all."""

import mindspore
import numpy as np
import pytest

from mindnlp_dp_plugin.collectives.pretended import PretendedRank
from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket, HostBucket
from mindnlp_dp_plugin.ddp.parts import cut

NUM_RANKS = 3
SHAPES = ((4, 5), (3,), (1,), (7,))


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(host_memory, "RUN", 4)


def averaged(bucket_type, dtype, rank=0, parts=None):
    collective = PretendedRank(NUM_RANKS)
    collective.rank = rank
    chance = np.random.default_rng(0)
    values = [mindspore.Tensor(chance.standard_normal(shape).astype(dtype)) for shape in SHAPES]
    bucket = bucket_type(values, collective, parts=parts)
    for index, gradient in enumerate(values):
        bucket.put(index, gradient, None, 1 / 3)
    bucket.start()
    return bucket, bucket.gradients()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bucket_type", [HostBucket, DeviceBucket])
def test_parts_are_scaled_as_whole_gradients_are(bucket_type, dtype):
    whole, expected = averaged(bucket_type, dtype)
    parts = cut([tensor.size for tensor in expected], NUM_RANKS)
    factor = mindspore.tensor(0.37, mindspore.float32)
    squares = whole.squares()
    whole.scale(expected, factor)
    found = []
    for rank in range(NUM_RANKS):
        bucket, runs = averaged(bucket_type, dtype, rank, parts)
        found += bucket.squares()
        bucket.scale(runs, factor)
        assert len(runs) == len(parts[rank])
        for run, own in zip(runs, parts[rank]):
            of_whole = expected[own.index]
            np.testing.assert_array_equal(run.asnumpy(), of_whole.asnumpy().reshape(-1)[own.begin : own.end])
            assert run.dtype == of_whole.dtype
    assert found == squares
