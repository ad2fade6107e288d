"""What MindNLP imports, or calls while it is imported, and MindSpore has no more."""

import sys
import types

from mindnlp_dp_plugin.compat.patch import patch

STUB_MODULE = "mindspore.common._stub_tensor"


@patch(
    module="mindspore",
    bridges="import mindnlp: it imports mindspore.common._stub_tensor, which MindSpore 2.7 dropped",
    obsolete_when="MindNLP no longer names StubTensor (mindnlp/patch.py, core/nn/modules/module.py)",
)
def stub_tensor_module(mindspore):
    stub = types.ModuleType(STUB_MODULE, "Stands where MindSpore had its stub tensors; no tensor is one any more.")
    stub.StubTensor = type("StubTensor", (), {"__module__": STUB_MODULE})
    stub._convert_stub = stub._convert_python_data = lambda value: value
    sys.modules[STUB_MODULE] = mindspore.common._stub_tensor = stub


@patch(
    module="mindnlp.core.ops.creation",
    bridges="mindnlp.core.ops.empty: it calls a private function of MindSpore whose signature changed",
    obsolete_when="mindnlp.core.ops.empty calls the public mindspore.mint.empty",
)
def empty_through_constructor(creation):
    creation.has_empty = False
