"""A program of its own: build a model, take one gradient, and print what that needs, as JSON behind ``ANSWER``.

    python -m mindnlp_dp_plugin.doctor.trial_gradient MODEL BATCH LENGTH FP16

The weights are random: of MODEL only the configuration is read.
"""

import json
import sys
from contextlib import nullcontext

import mindnlp.engine  # noqa: F401  the plugin's modules that use it are imported by this
import mindspore
import numpy as np
from mindnlp import transformers

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.doctor.memory import ANSWER
from mindnlp_dp_plugin.trainer.observe.throughput import peak_memory

SHORTEST = 8


def build(name: str):
    """The model of a configuration, of the class that it names, otherwise a classifier."""
    config = transformers.AutoConfig.from_pretrained(name)
    for architecture in config.architectures or ():
        if hasattr(transformers, architecture):
            return getattr(transformers, architecture)(config)
    return transformers.AutoModelForSequenceClassification.from_config(config)


def gradient(model, parameters: list, batch: int, length: int, fp16: bool) -> None:
    """Take the gradient of the model's loss, or of its first output if it computes none."""
    ids = mindspore.Tensor(np.random.default_rng(0).integers(5, model.config.vocab_size, (batch, length)))
    labels = mindspore.Tensor(np.zeros(batch, np.int64)) if "SequenceClass" in type(model).__name__ else ids

    def loss():
        with dp.autocast() if fp16 else nullcontext():
            try:
                outputs = model(input_ids=ids, labels=labels)
            except TypeError:  # a model without a head
                outputs = model(input_ids=ids)
        found = getattr(outputs, "loss", None)
        return outputs[0].astype(mindspore.float32).mean() if found is None else found

    mindspore.value_and_grad(loss, None, parameters)()


def main(name: str, batch: int, length: int, fp16: bool) -> None:
    """Print the measurements."""
    model = build(name)
    model.set_train(True)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradient(model, parameters, 1, min(SHORTEST, length), fp16)  # what is loaded and compiled once
    before = peak_memory()
    gradient(model, parameters, batch, length, fp16)
    sizes = [parameter.size for parameter in parameters]
    all_bytes = sum(parameter.nbytes for parameter in model.parameters())
    measured = {
        "model": type(model).__name__,
        "trained": sum(sizes),
        "frozen_bytes": all_bytes - sum(parameter.nbytes for parameter in parameters),
        "largest": max(sizes),
        "activation_bytes": peak_memory() - before,
    }
    print(ANSWER + json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "fp16")
