import math
from dataclasses import dataclass

import mindspore
from hypothesis import example, given
from hypothesis import strategies as st

from mindnlp_dp_plugin.ddp.plan import MEGABYTE, plan_buckets


@dataclass(frozen=True, eq=False)
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


def num_bytes(bucket):
    sizes = {mindspore.float16: 2, mindspore.float32: 4}
    return sum(math.prod(parameter.shape) * sizes[parameter.dtype] for parameter in bucket)


@given(PARAMETERS, st.just(0) | st.floats(0, 20))
@example([Parameter(mindspore.float32, (MEGABYTE // 16,)) for _ in range(3)], 0.5)  # two fill a bucket
def test_every_parameter_is_in_one_bucket_of_its_dtype_no_larger_than_need_be(parameters, cap):
    plan = plan_buckets(parameters, cap)
    place = {parameter: index for index, parameter in enumerate(parameters)}
    assert sorted(place[parameter] for bucket in plan for parameter in bucket) == list(range(len(parameters)))
    for bucket in plan:
        assert len({parameter.dtype for parameter in bucket}) == 1
        assert bucket == sorted(bucket, key=place.get)
        assert num_bytes(bucket[:-1]) < max(cap * MEGABYTE, 1)


@given(PARAMETERS, st.floats(0, 20))
def test_buckets_are_listed_as_they_fill_up_and_what_is_left_of_each_dtype_comes_last(parameters, cap):
    plan = plan_buckets(parameters, cap)
    full = [bucket for bucket in plan if num_bytes(bucket) >= cap * MEGABYTE]
    left = plan[len(full) :]
    assert plan[: len(full)] == full, "a bucket that may start early waits behind one that cannot"
    filled_at = [parameters.index(bucket[-1]) for bucket in full]
    assert filled_at == sorted(filled_at)
    assert len(left) == len({bucket[0].dtype for bucket in left})
    for dtype in {parameter.dtype for parameter in parameters}:
        of_dtype = [parameter for bucket in plan for parameter in bucket if parameter.dtype == dtype]
        assert of_dtype == [each for each in parameters if each.dtype == dtype], "gradients wait for later ones"
