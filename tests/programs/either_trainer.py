"""The Trainer of the MindNLP that is installed, with a tiny classifier and rows for it, under one set of names."""

from mindnlp_dp_plugin import compat  # isort: skip

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

    def rows(number=32):
        return Rows(number, seed=7)

    def set_weights(model, values):
        for parameter, value in zip(model.parameters(), values):
            parameter.data.copy_(torch.tensor(value))

else:
    from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
    from mindspore import Tensor

    from tests.programs.tiny import tiny_model as new_model
    from tests.programs.tiny import tiny_rows

    OPTIONS = {}
    EVALUATES = "evaluation_strategy"

    def rows(number=32):
        return tiny_rows(number).batch(4)

    def set_weights(model, values):
        for parameter, value in zip(model.parameters(), values):
            parameter.assign_value(Tensor(value))


__all__ = [
    "EVALUATES",
    "OPTIONS",
    "EarlyStoppingCallback",
    "Trainer",
    "TrainerCallback",
    "TrainingArguments",
    "new_model",
    "rows",
    "set_weights",
]
