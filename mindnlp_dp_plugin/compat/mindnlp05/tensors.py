"""MindSpore's tensors, whose methods ``mindtorch`` replaces."""

import wrapt

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindspore",
    bridges="hooks for gradients: mindtorch's Tensor.register_hook registers on a copy, and the hook never runs",
    fault_of="MindNLP",
    obsolete_when="mindtorch's Tensor.register_hook registers on the tensor itself",
)
def hooks_on_the_tensor_itself(mindspore):
    stock = mindspore.Tensor.register_hook

    def put_back(_):
        mindspore.Tensor.register_hook = stock

    wrapt.register_post_import_hook(put_back, "mindtorch")


@patch(
    module="mindtorch",
    bridges="tensors that MindSpore makes, as averaged gradients are: mindtorch's operators refuse what has no device",
    fault_of="MindNLP",
    obsolete_when="mindtorch's Tensor.device has a default",
)
def tensors_have_a_device(mindtorch):
    import mindspore

    device = "npu" if mindspore.get_context("device_target") == "Ascend" else "cpu"
    mindspore.Tensor._device = mindtorch.device(device)


@patch(
    module="mindtorch",
    bridges="gradients through a difference of two tensors, and through .to(device): on CPU the values are copied "
    "by way of NumPy, and whatever was before has no gradient",
    fault_of="MindNLP",
    obsolete_when="mindtorch's Tensor.to returns a tensor itself where it is on the device",
)
def tensors_stay_where_they_are(mindtorch):
    import mindspore

    stock = mindspore.Tensor._move_to

    def _move_to(self, device, non_blocking=False):
        return self if device.type == self.device.type == "cpu" else stock(self, device, non_blocking)

    mindspore.Tensor._move_to = _move_to
