"""Random numbers, and what of them a checkpoint keeps."""

import contextlib

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindtorch._apis.cpu",
    bridges="dropout, rand, randn, randint, bernoulli, normal_, uniform_ and random_ that take the seed: on CPU they "
    "ignore it, or draw from NumPy's generator, or seed that; and bernoulli draws with 0.5, whatever it is given",
    obsolete_when="mindtorch._apis.cpu draws from the generator it is given, and bernoulli with its probabilities",
)
def draws_take_the_seed(cpu):
    import mindspore
    import numpy as np

    def made(values, dtype):
        return cpu.cast(mindspore.Tensor(values), dtype)

    def overwrite(input, values):
        cpu.numpy_to_tensor_overwrite(values.astype(input.numpy().dtype), input)
        return input

    def dropout(input, p, seed, offset):
        kept = _stream_at(seed, offset).random(tuple(input.shape), np.float32) >= p
        mask = mindspore.Tensor(kept.astype(np.float32) / np.float32(1 - p))
        return cpu.mul(input, mask), mask

    def rand(size, generator, dtype):
        return made(_stream(generator).random(tuple(size), np.float32), dtype)

    def rand_like(input, generator, dtype):
        return rand(input.shape, generator, dtype)

    def randn(size, generator, dtype):
        return made(_stream(generator).standard_normal(tuple(size), np.float32), dtype)

    def randint(low, high, shape, generator, dtype):
        return made(_stream(generator).integers(low, high, tuple(shape)), dtype)

    def bernoulli(input, generator):
        return made(_stream(generator).random(tuple(input.shape)) < input.numpy(), input.dtype)

    def normal_float_float(mean, std, size, dtype, generator):
        return made(_stream(generator).normal(mean, std, size).astype(np.float32), dtype)

    def inplace_normal(input, mean, std, generator):
        return overwrite(input, _stream(generator).normal(mean, std, tuple(input.shape)))

    def inplace_uniform(input, low, high, generator):
        return overwrite(input, _stream(generator).uniform(float(low), float(high), tuple(input.shape)))

    def inplace_random(input, low=0, high=None, generator=None):
        dtype = input.numpy().dtype
        if high is None:
            high = np.iinfo(dtype).max if dtype.kind in "iu" else 1 << 24
        return overwrite(input, _stream(generator).integers(low, high, tuple(input.shape)))

    for function in (
        *(dropout, rand, rand_like, randn, randint, bernoulli, normal_float_float),
        *(inplace_normal, inplace_uniform, inplace_random),
    ):
        setattr(cpu, function.__name__, function)


@patch(
    module="mindtorch.ops.random",
    bridges="randn_like, which draws evenly from 0 to 1; and multinomial on CPU: with replacement it takes weights for "
    "probabilities, so that all that is drawn may be the first, and it ignores its generator",
    obsolete_when="mindtorch.ops.random.randn_like asks for randn, and multinomial divides by the sum of weights",
)
def normal_and_weighted_draws(random):
    import mindtorch
    import numpy as np

    stock = random.multinomial

    def randn_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None):
        return random.randn(tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device)

    def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
        if input.device.type != "cpu":
            return stock(input, num_samples, replacement, generator=generator, out=out)
        weights = input.numpy().astype(np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any() or (weights.sum(axis=-1) <= 0).any():
            raise RuntimeError("multinomial: weights must be finite, none below 0, and their sum above 0")
        if not replacement and num_samples > (weights > 0).sum(axis=-1).min():
            raise RuntimeError(f"multinomial: {num_samples} to draw without replacement, of fewer weights above 0")
        chance = _stream(generator or random.default_generator)
        rows = [
            chance.choice(row.size, num_samples, replacement, row / row.sum())
            for row in weights.reshape(-1, weights.shape[-1])
        ]
        drawn = mindtorch.tensor(np.reshape(rows, (*weights.shape[:-1], num_samples)), dtype=mindtorch.int64)
        if out is None:
            return drawn
        out.data = drawn
        return out

    random.randn_like, random.multinomial = randn_like, multinomial


@patch(
    module="mindtorch._C",
    bridges="torch's random numbers on CPU: a generator says the same seed and offset each time, so all layers and "
    "steps drop the same",
    mindspore="<2.8",
    obsolete_when="mindtorch's Generator._step moves its offset on",
)
def generators_move_on(_C):
    import mindspore
    from mindspore._c_expression import pyboost_generator

    stock = _C.Generator._step

    def _step(self, step):
        if mindspore.get_context("device_target") != "CPU":  # operators of other devices move it on themselves
            return stock(self, step)
        state = self._seed, self._offset, mindspore.Tensor(step, mindspore.int64)
        found = pyboost_generator(self._generator, [_C.STEP, state])[:2]
        return tuple(mindspore.Tensor(each.item(), mindspore.int64) for each in found)

    _C.Generator._step = _step


@patch(
    module="mindtorch.serialization",
    bridges="the random state on resuming: transformers asks for safe_globals, which mindtorch.serialization has not",
    obsolete_when="mindtorch.serialization has safe_globals",
)
def safe_globals(serialization):
    serialization.safe_globals = lambda allowed: contextlib.nullcontext()


@patch(
    module="mindspore.common.generator",  # has made MindSpore's own
    bridges="import mindtorch: MindSpore 2.8 gives Generator its seed and offset when it is made; before, with each "
    "call",
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


def _stream(generator):
    """NumPy's, from where one of torch's stands, which moves on."""
    return _stream_at(*generator._step(12))


def _stream_at(seed, offset):
    import numpy as np

    return np.random.Generator(np.random.Philox(key=[int(seed.asnumpy()), int(offset.asnumpy())]))
