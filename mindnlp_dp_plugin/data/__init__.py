"""Which rank reads which rows."""

from mindnlp_dp_plugin.data.lengths import measure_lengths
from mindnlp_dp_plugin.data.micro_batches import shard_micro_batches
from mindnlp_dp_plugin.data.packing import pack_dataset, packed_rows_of
from mindnlp_dp_plugin.data.padding import DynamicPadding
from mindnlp_dp_plugin.data.sampler import DistributedLengthGroupedSampler, DistributedSampler
from mindnlp_dp_plugin.data.shard import shard
from mindnlp_dp_plugin.data.sharded import ShardedDataset

__all__ = [
    "DistributedLengthGroupedSampler",
    "DistributedSampler",
    "DynamicPadding",
    "ShardedDataset",
    "measure_lengths",
    "pack_dataset",
    "packed_rows_of",
    "shard",
    "shard_micro_batches",
]
