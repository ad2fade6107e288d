"""Warnings of MindSpore that would bury the log."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindspore",
    bridges="a readable log: MindNLP's attention masks call dtype_to_nptype, which warns at every call",
    obsolete_when="MindNLP no longer calls mindspore.dtype_to_nptype",
)
def quiet_dtype_to_nptype(mindspore):
    mindspore.dtype_to_nptype = mindspore.common.dtype._dtype_to_nptype


@patch(
    module="mindspore",
    bridges="a readable log: MindNLP's initialisers call Tensor.data_sync, which does nothing any more but warn",
    mindspore=">=2.10",
    obsolete_when="MindNLP no longer calls Tensor.data_sync",
)
def quiet_data_sync(mindspore):
    mindspore.Tensor.data_sync = lambda self, wait=True: None
