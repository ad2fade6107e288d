"""Averaging gradients over the ranks: buckets, the reducer that overlaps with backward, and its slow oracle."""

from mindnlp_dp_plugin.gradients.naive import NaiveReducer
from mindnlp_dp_plugin.gradients.reducer import GradientReducer

__all__ = ["GradientReducer", "NaiveReducer"]
