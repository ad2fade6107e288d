"""What a script needs is read from its text."""

import pytest

from mindnlp_dp_plugin.launch.script_names import cluster_name_in


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from mindspore import nn\nr = nn.DistributedGradReducer(p)", "mindspore.nn.DistributedGradReducer"),
        ("import mindspore as ms\nms.Model(net)", "mindspore.Model"),
        ("from mindspore.train import Model as M\nM(net)", "mindspore.train.Model"),
        ("import mindspore.ops as P\nP.AllReduce()", "mindspore.ops.AllReduce"),
        ("from mindspore.ops.operations import AllGather\nx = AllGather", "mindspore.ops.operations.AllGather"),
        ("from mindspore.communication.comm_func import all_reduce\nall_reduce(x)", None),
        ("from mine import Model\nModel()", None),
        ("from mindnlp.transformers import BertModel\nBertModel.AllReduce", None),
        ("Model = 1\nprint('mindspore.Model')", None),
        ("def broken(:\n", None),
    ],
)
def test_names_of_the_cluster(tmp_path, text, name):
    script = tmp_path / "train.py"
    script.write_text(text)
    assert cluster_name_in(script) == name


def test_a_script_that_cannot_be_read_needs_nothing(tmp_path):
    assert cluster_name_in(tmp_path / "none.py") is None
