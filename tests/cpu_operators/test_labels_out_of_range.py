"""A label that the model has no class for is named, where MindSpore's own error is an index, or none."""

import mindspore
import numpy as np
import pytest

from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.errors import DataParallelError
from tests.cpu_operators.compared import never


@pytest.mark.parametrize("label", [3, -1])
def test_it_is_named_with_the_number_of_classes(label):
    logits, labels = mindspore.ops.ones((2, 3), mindspore.float32), mindspore.Tensor(np.array([-100, label], np.int32))
    with pytest.raises(DataParallelError, match=f"Label {label} is not one of the model's 3 classes, 0 to 2"):
        cross_entropy(never, logits, labels)
