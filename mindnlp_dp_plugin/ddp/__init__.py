"""Replicas and their gradients: buckets, and the reducer that overlaps with backward."""

from mindnlp_dp_plugin.ddp.reducer import GradientReducer

__all__ = ["GradientReducer"]
