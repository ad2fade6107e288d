"""Buckets are cut into equal parts, whatever the sizes of their parameters."""

from hypothesis import example, given
from hypothesis import strategies as st

from mindnlp_dp_plugin.ddp.parts import cut, part_length


@given(sizes=st.lists(st.integers(0, 50), min_size=1), num_parts=st.integers(1, 9))
@example(sizes=[0], num_parts=2)
@example(sizes=[50_265], num_parts=2)
def test_each_element_is_in_one_part(sizes, num_parts):
    parts = cut(sizes, num_parts)
    assert len(parts) == num_parts
    flat = [(index, element) for part in parts for index, begin, end, _ in part for element in range(begin, end)]
    assert flat == [(index, element) for index, size in enumerate(sizes) for element in range(size)]


@given(sizes=st.lists(st.integers(0, 50), min_size=1), num_parts=st.integers(1, 9))
def test_parts_are_equal_but_for_the_last(sizes, num_parts):
    length = part_length(sizes, num_parts)
    assert length * num_parts - sum(sizes) < num_parts
    filled = [sum(extent.end - extent.begin for extent in part) for part in cut(sizes, num_parts)]
    assert filled == [max(0, min(length, sum(sizes) - length * rank)) for rank in range(num_parts)]


@given(sizes=st.lists(st.integers(0, 50), min_size=1), num_parts=st.integers(1, 9))
def test_extents_of_a_part_follow_each_other(sizes, num_parts):
    for part in cut(sizes, num_parts):
        at = 0
        for extent in part:
            assert extent.at == at and extent.begin < extent.end <= sizes[extent.index]
            at += extent.end - extent.begin
