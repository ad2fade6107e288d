import math
import random
from dataclasses import dataclass

import mindspore
from hypothesis import example, given
from hypothesis import strategies as st

from mindnlp_dp_plugin.ddp.plan import MEGABYTE, plan_buckets


@dataclass(frozen=True)
class Parameter:
    dtype: mindspore.Type
    shape: tuple[int]


PARAMETERS = st.lists(
    st.builds(
        lambda half, size: Parameter(mindspore.float16 if half else mindspore.float32, (size,)),
        st.booleans(),
        st.integers(1, 3 * MEGABYTE),
    ),
    min_size=1,
    max_size=30,
)


def num_bytes(parameters, bucket):
    sizes = {mindspore.float16: 2, mindspore.float32: 4}
    return sum(math.prod(parameters[index].shape) * sizes[parameters[index].dtype] for index in bucket)


@given(PARAMETERS, st.randoms(use_true_random=False), st.just(0) | st.floats(0, 20))
@example([Parameter(mindspore.float32, (MEGABYTE // 16,))] * 3, random.Random(1), 0.5)  # two fill a bucket
def test_every_parameter_is_in_one_bucket_of_its_dtype_no_larger_than_need_be(parameters, chance, cap):
    order = list(range(len(parameters)))
    chance.shuffle(order)
    plan = plan_buckets(parameters, order, cap)
    assert sorted(index for bucket in plan for index in bucket) == sorted(order)
    for bucket in plan:
        assert len({parameters[index].dtype for index in bucket}) == 1
        assert [order.index(index) for index in bucket] == sorted(order.index(index) for index in bucket)
        assert num_bytes(parameters, bucket[:-1]) < max(cap * MEGABYTE, 1)


@given(PARAMETERS, st.randoms(use_true_random=False), st.floats(0, 20))
def test_buckets_are_listed_as_they_fill_up_and_what_is_left_of_each_dtype_comes_last(parameters, chance, cap):
    order = list(range(len(parameters)))
    chance.shuffle(order)
    plan = plan_buckets(parameters, order, cap)
    full = [bucket for bucket in plan if num_bytes(parameters, bucket) >= cap * MEGABYTE]
    left = plan[len(full) :]
    assert plan[: len(full)] == full, "a bucket that may start early waits behind one that cannot"
    filled_at = [order.index(bucket[-1]) for bucket in full]
    assert filled_at == sorted(filled_at)
    assert len(left) == len({parameters[bucket[0]].dtype for bucket in left})
    for dtype in {parameter.dtype for parameter in parameters}:
        of_dtype = [index for bucket in plan for index in bucket if parameters[index].dtype == dtype]
        assert of_dtype == [index for index in order if parameters[index].dtype == dtype], (
            "gradients wait for later ones"
        )
