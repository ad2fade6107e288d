"""MindNLP's Trainer as a script uses it: the public names that recipes train with."""

from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from mindnlp.engine.callbacks import ProgressCallback
from mindnlp.engine.utils import set_seed

__all__ = ["EarlyStoppingCallback", "ProgressCallback", "Trainer", "TrainerCallback", "TrainingArguments", "set_seed"]
