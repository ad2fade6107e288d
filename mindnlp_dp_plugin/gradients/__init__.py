"""Averaging gradients over the ranks: buckets, the reducer that overlaps with backward, its slow oracle, weights."""

from mindnlp_dp_plugin.gradients.naive import NaiveReducer
from mindnlp_dp_plugin.gradients.reducer import GradientReducer
from mindnlp_dp_plugin.gradients.weighting import WeightedMean

__all__ = ["GradientReducer", "NaiveReducer", "WeightedMean"]
