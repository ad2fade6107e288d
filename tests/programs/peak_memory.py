"""Print by how many MB a gradient raises the peak of memory, and the seconds of the next.

python peak_memory.py kept|recomputed
"""

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import sys
import time

import mindspore
import numpy as np
from mindnlp.transformers import RobertaConfig, RobertaForSequenceClassification

from mindnlp_dp_plugin.job.hardware import peak_memory


def peak_mb():
    return peak_memory() / 2**20


def gradient(model, batch):
    _, gradients = mindspore.value_and_grad(lambda: model(**batch).loss, None, tuple(model.parameters()))()
    gradients[0].asnumpy()  # computed last


def make(num_layers):
    config = RobertaConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=num_layers, num_attention_heads=4, intermediate_size=256
    )
    return RobertaForSequenceClassification(config).set_train(True)


def batch_of(length):
    ids = np.random.default_rng(0).integers(5, 100, (8, length))
    return {"input_ids": mindspore.Tensor(ids), "labels": mindspore.Tensor(np.arange(8) % 2)}


model = make(16)
if sys.argv[1] == "recomputed":
    model.recompute_enable()
gradient(model, batch_of(8))  # whatever is loaded and compiled once
before = peak_mb()
gradient(model, batch_of(256))
raised = peak_mb() - before
began = time.perf_counter()
gradient(model, batch_of(256))
print(raised, time.perf_counter() - began)
