"""Which rank reads which rows."""

from mindnlp_dp_plugin.data.sampler import DistributedSampler
from mindnlp_dp_plugin.data.shard import shard
from mindnlp_dp_plugin.data.sharded import ShardedDataset

__all__ = ["DistributedSampler", "ShardedDataset", "shard"]
