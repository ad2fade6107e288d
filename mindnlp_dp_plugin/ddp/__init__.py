"""Replicas and their gradients: buckets, the reducer that overlaps with backward, the weighted mean."""

from mindnlp_dp_plugin.ddp.reducer import GradientReducer

__all__ = ["GradientReducer"]
