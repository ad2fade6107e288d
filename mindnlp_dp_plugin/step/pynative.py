"""MindNLP's models run in PyNative mode alone: compiled as a graph, their ``forward`` misses its arguments."""

import mindspore
from mindspore.common.api import _pynative_executor

from mindnlp_dp_plugin.errors import DataParallelError


def require_pynative() -> None:
    """Refuse graph mode in place of ``Miss argument input for parameter:inputs`` in the first step.

    Raises:
        DataParallelError: The script has set ``GRAPH_MODE``.
    """
    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise DataParallelError(
            "mode=GRAPH_MODE: MindNLP's models train in PyNative mode only. Remove mindspore.set_context(mode=...), or "
            "set PYNATIVE_MODE."
        )


def end_recording() -> None:
    """End what a forward that raised has begun to record: MindSpore would take new parameters for its results."""
    if _pynative_executor.grad_flag():
        _pynative_executor.clear_res()
