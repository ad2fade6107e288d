"""Files of weights."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindnlp.utils.safetensors_patch",
    bridges="loading weights, and so resuming, with safetensors 0.8: MindNLP's safe_open lacks what that calls",
    obsolete_when="mindnlp.utils.safetensors_patch.fast_safe_open takes backend=, and has get_tensors",
)
def weights_with_safetensors_08(safetensors_patch):
    safe_open = safetensors_patch.fast_safe_open
    stock = safe_open.__init__

    def __init__(self, *args, backend=None, **kwargs):  # which has no meaning here: MindNLP always maps the file
        stock(self, *args, **kwargs)

    def get_tensors(self):
        return {name: self.get_tensor(name) for name in self.keys()}

    safe_open.__init__ = __init__
    safe_open.get_tensors = get_tensors
