"""Compute the same with BLAS at 1, 2 and 3 threads, and end with an error where a bit differs.

Started with ``OPENBLAS_CORETYPE``, by the kernels for that processor.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import os

import mindspore
import numpy as np
import threadpoolctl
from mindnlp.core import nn, optim
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from mindnlp_dp_plugin.cpu_operators import threads
from tests.programs.tiny import seed_everything

PRODUCTS = [
    *((1, 768, 768), (4, 768, 768), (5, 768, 768), (37, 768, 768), (192, 768, 768), (1024, 300, 700), (33, 7, 9)),
    *((515, 1030, 2049), (512, 256, 1000), (6200, 65, 130), (300, 20, 30011)),
]
STACKS = [(2, 3, 33, 16, 33), (8, 4, 64, 32, 64), (1, 1, 600, 300, 500)]
CONFIG = BertConfig(
    vocab_size=500, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024,
)  # fmt: skip


def with_threads(number, compute):
    """What ``compute`` returns in a process whose BLAS came with that many threads."""
    dp.uninstall()
    with threadpoolctl.threadpool_limits(number, user_api="blas"):
        dp.install()
        assert {library["num_threads"] for library in blas_libraries()} == {1}
        results = compute()
        dp.uninstall()
        assert {library["num_threads"] for library in blas_libraries()} == {number}
    return results


def blas_libraries():
    return [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def values_and_gradients(function, *tensors):
    results = function(*tensors)
    gradients = mindspore.grad(lambda *t: (function(*t) ** 2).sum(), tuple(range(len(tensors))))(*tensors)
    return [results, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def products():
    chance = np.random.default_rng(0)

    def tensor(*shape):
        return mindspore.Tensor(chance.standard_normal(shape, np.float32))

    for rows, inner, columns in PRODUCTS:
        arguments = tensor(rows, inner), tensor(columns, inner), tensor(columns)
        yield f"linear {rows, inner, columns}", values_and_gradients(functional.linear, *arguments)
    for *stack, rows, inner, columns in STACKS:
        arguments = tensor(*stack, rows, inner), tensor(*stack, inner, columns)
        yield f"matmul {*stack, rows, inner, columns}", values_and_gradients(core_ops.matmul, *arguments)
    image = tensor(2000, 300)
    yield "softmax and sum", values_and_gradients(lambda a, b: functional.softmax(a, dim=-1) + b, image, tensor(300))
    classes = mindspore.Tensor(chance.integers(300, size=2000))
    yield "cross entropy", values_and_gradients(lambda t: functional.cross_entropy(t, classes), image)
    for form in ("none", "tanh"):
        yield f"GELU, {form}", values_and_gradients(lambda t, form=form: functional.gelu(t, form), image)
    scale, shift = tensor(300), tensor(300)
    yield (
        "layer_norm",
        values_and_gradients(lambda *t: functional.layer_norm(t[0], (300,), *t[1:]), image, scale, shift),
    )


def a_training_step():
    seed_everything(1)
    model = BertForSequenceClassification(CONFIG)
    model.set_train(True)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)
    chance = np.random.default_rng(0)
    ids = mindspore.Tensor(chance.integers(0, 500, (8, 64)))
    labels = mindspore.Tensor(chance.integers(0, 2, 8))
    loss = mindspore.value_and_grad(lambda: model(input_ids=ids, labels=labels).loss, None, parameters)
    value, gradients = loss()
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    norm = nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    yield "a training step", [value, norm, *parameters]


def digests():
    return [
        (name, [array.asnumpy().tobytes() for array in arrays])
        for part in (products, a_training_step)
        for name, arrays in part()
    ]


def main():
    threads.LEAST_NUMBERS = 1000  # or little would be cut
    alone = with_threads(1, digests)
    for number in (2, 3):
        several = with_threads(number, digests)
        differing = [name for (name, mine), (_, theirs) in zip(alone, several) if mine != theirs]
        assert not differing, f"{number} threads, {os.environ.get('OPENBLAS_CORETYPE')}: {differing}"


if __name__ == "__main__":
    main()
