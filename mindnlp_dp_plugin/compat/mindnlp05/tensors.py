"""MindSpore's tensors, whose methods ``mindtorch`` replaces."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindtorch._tensor",
    bridges="hooks for gradients: mindtorch's Tensor.register_hook registers on a copy, and the hook never runs",
    obsolete_when="mindtorch's Tensor.register_hook registers on the tensor itself",
)
def hooks_on_the_tensor_itself(_tensor):
    del _tensor.TensorPlaceHolder.register_hook  # MindSpore's stays


@patch(
    module="mindtorch._tensor",
    bridges="parameters that were frozen for a step and are unfrozen: no hook can be registered, their gradients are 0",
    obsolete_when="MindSpore differentiates by parameters whose param_info once said requires_grad=False",
)
def unfrozen_parameters(_tensor):
    stock = _tensor.TensorPlaceHolder.requires_grad

    def requires_grad(self, value):
        stock.fset(self, value)
        self.param_info.requires_grad = True  # who is asked for gradients, mindtorch says by name

    _tensor.TensorPlaceHolder.requires_grad = stock.setter(requires_grad)


@patch(
    module="mindtorch.nn.parameter",
    bridges="parameters that are made frozen, for a step, and then unfrozen: as unfrozen_parameters",
    obsolete_when="MindSpore differentiates by parameters whose param_info once said requires_grad=False",
)
def parameters_made_frozen(parameter):
    stock = parameter.Parameter.__init__

    def __init__(self, *args, **kwargs):
        stock(self, *args, **kwargs)
        self.param_info.requires_grad = True

    parameter.Parameter.__init__ = __init__


@patch(
    module="mindtorch",
    bridges="tensors that MindSpore makes, as averaged gradients are: mindtorch's operators refuse what has no device",
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
    obsolete_when="mindtorch's Tensor.to returns a tensor itself where it is on the device",
)
def tensors_stay_where_they_are(mindtorch):
    import mindspore

    stock = mindspore.Tensor._move_to

    def _move_to(self, device, non_blocking=False):
        return self if device.type == self.device.type == "cpu" else stock(self, device, non_blocking)

    mindspore.Tensor._move_to = _move_to
