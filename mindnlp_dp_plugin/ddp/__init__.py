"""Replicas and their gradients: buckets, the reducer that overlaps with backward, the weighted mean."""

from mindnlp_dp_plugin.ddp.reducer import GradientReducer
from mindnlp_dp_plugin.ddp.weighted_mean import WeightedMean

__all__ = ["GradientReducer", "WeightedMean"]
