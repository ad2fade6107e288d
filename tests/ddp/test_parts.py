"""Buckets are cut into parts as equal as runs allow, whatever the sizes of their parameters."""

from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.ddp.parts import cut, lengths_of

SIZES = st.lists(st.integers(0, 50), min_size=1)


def cut_by(run, sizes, num_parts):
    with patch.object(host_memory, "RUN", run):
        return cut(sizes, num_parts)


@given(sizes=SIZES, num_parts=st.integers(1, 9), run=st.integers(1, 20))
@example(sizes=[0], num_parts=2, run=4)
@example(sizes=[50_265], num_parts=2, run=8192)
def test_each_element_is_in_one_part(sizes, num_parts, run):
    parts = cut_by(run, sizes, num_parts)
    assert len(parts) == num_parts
    flat = [(index, element) for part in parts for index, begin, end, _ in part for element in range(begin, end)]
    assert flat == [(index, element) for index, size in enumerate(sizes) for element in range(size)]


@given(sizes=SIZES, num_parts=st.integers(1, 9), run=st.integers(1, 20))
def test_parts_are_within_a_run_of_equal(sizes, num_parts, run):
    for length in lengths_of(cut_by(run, sizes, num_parts)):
        assert abs(length - sum(sizes) / num_parts) <= run + 1


@given(sizes=SIZES, num_parts=st.integers(1, 9), run=st.integers(1, 20))
def test_extents_follow_each_other_and_end_where_a_run_ends(sizes, num_parts, run):
    for part in cut_by(run, sizes, num_parts):
        at = 0
        for extent in part:
            assert extent.at == at and extent.begin < extent.end <= sizes[extent.index]
            assert extent.begin % run == 0 and (extent.end % run == 0 or extent.end == sizes[extent.index])
            at += extent.end - extent.begin
