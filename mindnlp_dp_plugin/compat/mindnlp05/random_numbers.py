"""Random numbers, and what of them a checkpoint keeps."""

import contextlib

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindtorch._apis.cpu",
    bridges="dropout that takes the seed: on CPU it ignores it, so no two runs are alike, and none resumes exactly",
    fault_of="MindNLP",
    obsolete_when="mindtorch._apis.cpu.dropout draws from the seed and offset it is given",
)
def dropout_takes_the_seed(cpu):
    import numpy as np

    def dropout(input, p, seed, offset):
        import mindtorch

        stream = np.random.Generator(np.random.Philox(key=[int(seed.asnumpy()), int(offset.asnumpy())]))
        kept = stream.random(tuple(input.shape), np.float32) >= p
        mask = mindtorch.tensor(kept.astype(np.float32) / np.float32(1 - p))
        return cpu.mul(input, mask), mask

    cpu.dropout = dropout


@patch(
    module="mindtorch.serialization",
    bridges="the random state on resuming: transformers asks for safe_globals, which mindtorch.serialization has not",
    fault_of="MindNLP",
    obsolete_when="mindtorch.serialization has safe_globals",
)
def safe_globals(serialization):
    serialization.safe_globals = lambda allowed: contextlib.nullcontext()


@patch(
    module="mindspore.common.generator",  # has made MindSpore's own
    bridges="import mindtorch: MindSpore 2.8 gives Generator its seed and offset when it is made; before, with each "
    "call",
    fault_of="MindSpore",
    mindspore=">=2.8",
    obsolete_when="mindtorch makes MindSpore's Generator with seed and offset",
)
def generator_made_later(_):
    import mindspore
    from mindspore.ops.operations import _inner_ops

    stock = _inner_ops.Generator

    class Generator:
        """Makes the primitive with the first call."""

        def __init__(self):
            self._primitive, self._attributes = None, {}

        def set_device(self, device):
            self._device = device
            return self

        def add_prim_attr(self, name, value):
            self._attributes[name] = value
            if self._primitive:
                self._primitive.add_prim_attr(name, value)

        def __call__(self, command, inputs):
            if self._primitive is None:
                self._primitive = stock(inputs[0], inputs[1]).set_device(self._device)
                for name, value in self._attributes.items():
                    self._primitive.add_prim_attr(name, value)
            tensors = (x if isinstance(x, mindspore.Tensor) else mindspore.Tensor(x, mindspore.int64) for x in inputs)
            return self._primitive(command, tuple(tensors))

    _inner_ops.Generator = Generator
