"""An example of training a model: random weights, random tokens.

python -m mindnlp_dp_plugin.doctor.example MODEL BATCHxLENGTH [fp16]
"""

import sys
from tempfile import TemporaryDirectory

import mindspore
import numpy as np
from mindnlp import transformers

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.doctor.memory import NUM_STEPS
from mindnlp_dp_plugin.trainers.mindnlp.public import Trainer, TrainingArguments


class ExampleTrainer(Trainer):
    """Trains models without a head, too."""

    def compute_loss(self, model, inputs, return_outputs=False):
        """The model's loss, or the mean of its first output if it computes none."""
        try:
            outputs = model(**inputs)
        except TypeError:
            outputs = model(input_ids=inputs["input_ids"])
        found = getattr(outputs, "loss", None)
        loss = outputs[0].astype(mindspore.float32).mean() if found is None else found
        return (loss, outputs) if return_outputs else loss


def build(name: str):
    """The model of a configuration, of the class that it names, otherwise a classifier.

    Args:
        name: A folder with a ``config.json``, or a name that MindNLP can fetch.
    """
    config = transformers.AutoConfig.from_pretrained(name)
    for architecture in config.architectures or ():
        if hasattr(transformers, architecture):
            return getattr(transformers, architecture)(config)
    return transformers.AutoModelForSequenceClassification.from_config(config)


def train(model, batch: int, length: int, fp16: bool) -> None:
    """Train a model for a few steps. All ranks must call it.

    Args:
        model: It has a ``config``.
        batch: Rows of a rank's batch.
        length: Tokens of a row.
        fp16: Whether operators compute in mixed precision.
    """
    shape = batch * NUM_STEPS * current().world_size, length
    ids = np.random.default_rng(0).integers(5, model.config.vocab_size, shape)
    labels = np.zeros(len(ids), np.int64) if "SequenceClass" in type(model).__name__ else ids
    rows = mindspore.dataset.NumpySlicesDataset({"input_ids": ids, "labels": labels}, shuffle=False)
    with TemporaryDirectory() as folder:
        options = dict(max_steps=NUM_STEPS, save_strategy="no", fp16=fp16, disable_tqdm=True)
        arguments = TrainingArguments(folder, per_device_train_batch_size=batch, **options)
        ExampleTrainer(model, arguments, train_dataset=rows.batch(batch)).train()


if __name__ == "__main__":
    name, shape, *precision = sys.argv[1:]
    train(build(name), *map(int, shape.split("x")), fp16=bool(precision))
