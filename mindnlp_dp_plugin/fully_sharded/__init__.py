"""Parameters shared out over the ranks: those of a module are whole only while it computes.

Source: stage 3 of "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al., 2020);
torch calls it "fully sharded data parallel" (Zhao et al., 2023), and a module that computes with whole parameters a
unit.
"""

from mindnlp_dp_plugin.fully_sharded.leading import Leading
from mindnlp_dp_plugin.fully_sharded.parameters import (
    SharedParameters,
    gathered_parameters,
    is_shared_out,
    join_parameters,
    shared_parameters,
)

__all__ = [
    "Leading",
    "SharedParameters",
    "gathered_parameters",
    "is_shared_out",
    "join_parameters",
    "shared_parameters",
]
