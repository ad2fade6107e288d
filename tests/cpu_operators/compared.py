"""An operator beside MindNLP's own: values and gradients."""

import mindspore
import numpy as np


def never(*_, **__):
    raise AssertionError("went to MindNLP's own")


def tensor(chance, *shape, dtype=np.float32):
    return mindspore.Tensor(chance.standard_normal(shape).astype(dtype))


def values_and_gradients(function, *tensors):
    """The results, and the gradients of their sum weighted by place: alike for all only if each is right."""
    results = function(*tensors)
    weights = mindspore.Tensor(np.cos(np.arange(results.size)).astype(np.float32).reshape(results.shape))
    gradients = mindspore.grad(lambda *t: (function(*t) * weights).sum(), tuple(range(len(tensors))))(*tensors)
    return [results, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def assert_like_stock(operator, stock, *tensors, atol=2e-6):
    routed = values_and_gradients(lambda *t: operator(stock, *t), *tensors)
    for mine, theirs in zip(routed, values_and_gradients(stock, *tensors), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        mine, theirs = mine.asnumpy(), theirs.asnumpy()
        finite = np.abs(theirs[np.isfinite(theirs)])
        largest = max(1, finite.max(initial=0))  # what is summed is of the size of 1, even if nothing is left
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol * largest)
