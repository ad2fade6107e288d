"""How long MCCL, MindSpore's collectives on CPU, wait for a late rank."""

import os

import mindspore

# Their own limit is 30 s, less than rank 0 may need to download and tokenise; torch.distributed waits half an hour.
PATIENCE_S = "1800"
VARIABLES = ("MS_CPU_COMM_OP_TIMEOUT", "MS_NODE_TIMEOUT")  # MindSpore 2.10 and 2.7


def be_patient() -> None:
    """Let collectives on CPU wait half an hour, unless the user set how long. To be called before the cluster forms.

    Not on Ascend, where HCCL has limits of its own and ``MS_NODE_TIMEOUT`` says when a host counts as lost.
    """
    if mindspore.get_context("device_target") == "CPU":
        for variable in VARIABLES:
            os.environ.setdefault(variable, PATIENCE_S)
