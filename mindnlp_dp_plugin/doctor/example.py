"""An example of training a model: random weights, random tokens.

python -m mindnlp_dp_plugin.doctor.example MODEL BATCHxLENGTH [fp16]
"""

import inspect
import sys
from tempfile import TemporaryDirectory

import mindspore
import numpy as np
from mindnlp import transformers

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.doctor.memory import NUM_STEPS
from mindnlp_dp_plugin.trainers.mindnlp.public import Trainer, TrainingArguments


def train(name: str, batch: int, length: int, fp16: bool) -> None:
    """Train for a few steps a class that a configuration names and that computes a loss, otherwise a classifier.

    All ranks must call it.

    Args:
        name: A folder with a ``config.json``, or a name that MindNLP can fetch.
        batch: Rows of a rank's batch.
        length: Tokens of a row.
        fp16: Whether operators compute in mixed precision.
    """
    config = transformers.AutoConfig.from_pretrained(name)
    named = [getattr(transformers, architecture, None) for architecture in config.architectures or ()]
    kind = next((each for each in named if each and "labels" in inspect.signature(each.forward).parameters), None)
    model = kind(config) if kind else transformers.AutoModelForSequenceClassification.from_config(config)
    shape = batch * NUM_STEPS * current().world_size, length
    ids = np.random.default_rng(0).integers(5, config.vocab_size, shape)
    labels = np.zeros(len(ids), np.int64) if "SequenceClass" in type(model).__name__ else ids
    rows = mindspore.dataset.NumpySlicesDataset({"input_ids": ids, "labels": labels}, shuffle=False)
    with TemporaryDirectory() as folder:
        options = dict(max_steps=NUM_STEPS, save_strategy="no", fp16=fp16, disable_tqdm=True)
        arguments = TrainingArguments(folder, per_device_train_batch_size=batch, **options)
        Trainer(model, arguments, train_dataset=rows.batch(batch)).train()


if __name__ == "__main__":
    name, shape, *precision = sys.argv[1:]
    train(name, *map(int, shape.split("x")), fp16=bool(precision))
