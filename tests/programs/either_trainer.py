"""The Trainer of the MindNLP that is installed, with a tiny classifier and rows for it, under one set of names."""

from mindnlp_dp_plugin import compat  # isort: skip

import hashlib

import numpy as np

if compat.has_mindnlp05():
    import mindnlp  # noqa: F401  isort: skip
    import torch
    from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments, set_seed

    from tests.mindnlp05.programs.models import Rows, bert

    OPTIONS = dict(per_device_train_batch_size=4, per_device_eval_batch_size=8, report_to=[])
    EVALUATES = "eval_strategy"

    def new_model():
        set_seed(3)
        return bert()

    def rows(seed=7, number=32):
        return Rows(number, seed=seed)

    def set_weights(model, values):
        for parameter, value in zip(model.parameters(), values):
            parameter.data.copy_(torch.tensor(value))

else:
    from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
    from mindspore import Tensor
    from mindspore.dataset import GeneratorDataset

    from tests.programs.tiny import tiny_model as new_model

    OPTIONS = {}
    EVALUATES = "evaluation_strategy"

    def rows(seed=7, number=32):
        chance = np.random.default_rng(seed)
        read = [(chance.integers(4, 96, 12).astype(np.int32), np.int32(chance.integers(3))) for _ in range(number)]
        return GeneratorDataset(read, ["input_ids", "labels"], shuffle=False).batch(4)

    def set_weights(model, values):
        for parameter, value in zip(model.parameters(), values):
            parameter.assign_value(Tensor(value))


def weights_of(model):
    return [parameter.asnumpy() for parameter in model.parameters()]


def digest_of(model):
    return hashlib.sha256(b"".join(value.tobytes() for value in weights_of(model))).hexdigest()


__all__ = [
    "EVALUATES",
    "OPTIONS",
    "EarlyStoppingCallback",
    "Trainer",
    "TrainerCallback",
    "TrainingArguments",
    "digest_of",
    "new_model",
    "rows",
    "set_weights",
    "weights_of",
]
