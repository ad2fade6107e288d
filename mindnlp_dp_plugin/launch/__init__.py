"""Who am I among the ranks, and how N of them are started and watched. Imports neither MindSpore nor MindNLP."""

from mindnlp_dp_plugin.job.rank_info import Identity, detect

__all__ = ["Identity", "detect"]
