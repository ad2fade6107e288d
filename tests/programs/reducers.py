"""The bucketed reducer beside the naive one, on every rank of a running job: a part of ``engines.py``."""

import gc
import hashlib

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.core.autograd import value_and_grad
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.replicas import make_replicas
from tests.oracles.naive_reducer import NaiveReducer

GROUP = collectives.current()
NUM_STEPS = 3


class CountingGroup:
    """The job's group, counting the all-reduces and their bytes."""

    def __init__(self):
        self.num_all_reduces = self.num_bytes = 0

    def __getattr__(self, name):
        return getattr(GROUP, name)

    def all_reduce(self, buffer):
        self.num_all_reduces += 1
        self.num_bytes += buffer.size * buffer.itemsize
        return GROUP.all_reduce(buffer)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        self.classifier = BertForSequenceClassification(BertConfig(**sizes, **dropout))

    def forward(self, chance):
        input_ids = mindspore.Tensor(chance.integers(0, 100, (4, 16)), mindspore.int32)
        labels = mindspore.Tensor(chance.integers(0, 2, 4), mindspore.int32)
        return self.classifier(input_ids=input_ids, labels=labels).loss


class MixedDtypes(nn.Module):
    """Parameters of three dtypes, one used twice, one by rank 1 only and one by nobody."""

    def __init__(self):
        super().__init__()
        self.single = nn.Parameter(ops.randn(7, 5))
        self.in_float16 = nn.Parameter(ops.randn(5, 5).astype(mindspore.float16))
        self.in_bfloat16 = nn.Parameter(ops.randn(5).astype(mindspore.bfloat16))
        self.twice = nn.Parameter(ops.randn(5, 5))
        self.by_rank_1 = nn.Parameter(ops.randn(5))
        self.by_nobody = nn.Parameter(ops.randn(5))

    def forward(self, chance):
        rows = mindspore.Tensor(chance.standard_normal((6, 7)).astype(np.float32))
        hidden = ops.tanh(ops.matmul(rows, self.single))
        hidden = ops.tanh(ops.matmul(ops.matmul(hidden, self.twice), self.twice))
        hidden = ops.matmul(hidden.astype(mindspore.float16), self.in_float16).astype(mindspore.float32)
        hidden = hidden * self.in_bfloat16.astype(mindspore.float32)
        if GROUP.rank == 1:
            hidden = hidden + self.by_rank_1
        return (hidden * hidden).mean()


def run(model_type, cap_mb, accumulate, prepare, comm_dtype="float32"):
    model = model_type()
    make_replicas(model, GROUP)
    parameters = list(model.parameters())
    group = CountingGroup()
    bucketed, naive = GradientReducer(parameters, group, cap_mb, comm_dtype), NaiveReducer(parameters, GROUP)
    step = value_and_grad(lambda chance: model(chance), tuple(parameters))
    chance = np.random.default_rng(GROUP.rank)
    differences, digests = [], []
    for _ in range(NUM_STEPS):
        state = chance.bit_generator.state
        results = []
        for reducer in (bucketed, naive):
            chance.bit_generator.state = state
            model.zero_grad()
            for _ in range(accumulate - 1):
                step(chance)
            if prepare:
                reducer.prepare()
            step(chance)
            reducer.finish()
            gc.collect()
            results.append([parameter.grad.astype(mindspore.float32).asnumpy().copy() for parameter in parameters])
            assert [parameter.grad.dtype for parameter in parameters] == [parameter.dtype for parameter in parameters]
        differences.append(max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(*results)))
        digests.append(hashlib.sha256(b"".join(gradient.tobytes() for gradient in results[0])).hexdigest())
    bucketed.close()
    largest = max(float(np.abs(gradient).max()) for gradient in results[0])
    return {
        "relative_differences": [difference / largest for difference in differences],
        "digests": digests,
        "num_all_reduces": group.num_all_reduces,
        "num_buckets": bucketed.num_buckets,
        "num_bytes": group.num_bytes,
        "gradient_bytes": sum(parameter.size * 4 for parameter in parameters),
    }


def run_clipping(model_type, max_norm):
    """Clipping by buckets beside clipping in NumPy and, of what that can compute, beside stock's."""
    model = model_type()
    make_replicas(model, GROUP)
    parameters = list(model.parameters())
    reducer = GradientReducer(parameters, GROUP, 0.02)
    reducer.prepare()
    value_and_grad(lambda chance: model(chance), tuple(parameters))(np.random.default_rng(GROUP.rank))
    reducer.finish()
    gradients = [parameter.grad for parameter in parameters]
    found = flat(gradients)
    norm = stock_norm = float(np.linalg.norm(found))
    if model_type is Bert:
        others = [nn.Parameter(parameter.copy()) for parameter in parameters]
        for other, gradient in zip(others, gradients):
            other.grad = gradient.copy()
        stock_norm = nn.utils.clip_grad_norm_(others, max_norm).item()
        expected = flat([other.grad for other in others])
    before = reducer.averaged.are(gradients), reducer.averaged.are(gradients[1:])
    mine = reducer.averaged.clip_grad_norm(max_norm).item()
    if model_type is not Bert:  # the factor is made of the norm of the sums, which are not rounded
        expected = found * min(1, max_norm / (mine + 1e-6))
    clipped = flat([parameter.grad for parameter in parameters])
    reducer.close()
    return {
        "norms": (mine, norm, stock_norm),
        "relative_difference": float(np.abs(clipped - expected).max() / np.abs(expected).max()),
        "has_just_averaged": [*before, reducer.averaged.are(gradients)],
    }


def run_memory():
    """Where backward leaves gradients, and whether those of one step are still what they were after the next."""
    model = Bert()
    make_replicas(model, GROUP)
    parameters = list(model.parameters())
    reducer = GradientReducer(parameters, GROUP)
    step = value_and_grad(lambda chance: model(chance), tuple(parameters))
    chance = np.random.default_rng(GROUP.rank)

    def addresses():
        return [parameter.grad.asnumpy().ctypes.data for parameter in parameters]

    reducer.prepare()
    step(chance)
    before = addresses()
    reducer.finish()
    are_in_buckets = before == addresses()
    of_first_step = [parameter.grad for parameter in parameters]
    values = flat(of_first_step)
    model.zero_grad()
    reducer.prepare()
    step(chance)
    reducer.finish()
    reducer.close()
    return {"are_in_buckets": are_in_buckets, "are_kept": np.array_equal(values, flat(of_first_step))}


def flat(gradients):
    return np.concatenate([gradient.astype(mindspore.float32).asnumpy().ravel() for gradient in gradients], dtype=float)


def run_near_overflow():
    """float16 gradients whose sum over ranks no float16 can hold: the mean of them."""
    parameter = nn.Parameter(ops.zeros(3).astype(mindspore.float16))
    reducer = GradientReducer([parameter], GROUP)
    slope = mindspore.Tensor(60000 - 1000 * GROUP.rank, mindspore.float16)
    reducer.prepare()
    value_and_grad(lambda: (parameter * slope).astype(mindspore.float32).sum(), (parameter,))()
    reducer.finish()
    reducer.close()
    return parameter.grad.asnumpy().tolist()


CASES = {
    "one_bucket": (Bert, 25, 1, True),
    "many_buckets": (Bert, 0.01, 1, True),
    "bucket_per_parameter": (Bert, 0, 1, True),
    "accumulated": (Bert, 0.02, 3, True),
    "without_prepare": (Bert, 0.02, 2, False),
    "mixed_dtypes": (MixedDtypes, 25, 1, True),
    "mixed_dtypes_accumulated_per_parameter": (MixedDtypes, 0, 2, True),
    "as_float16": (Bert, 0.02, 1, True, "float16"),
    "as_bfloat16": (Bert, 0.02, 1, True, "bfloat16"),
    "mixed_dtypes_as_float16": (MixedDtypes, 25, 1, True, "float16"),
}


def run_cases():
    """For each case, how far the two are apart in each step, and what was sent."""
    outcome = {name: run(*case) for name, case in CASES.items()}
    outcome["near_overflow"] = run_near_overflow()
    outcome["memory"] = run_memory()
    outcome["clipping"] = {
        f"{model_type.__name__} {max_norm}": run_clipping(model_type, max_norm)
        for model_type in (Bert, MixedDtypes)
        for max_norm in (0.01, 1e6)
    }
    return outcome
