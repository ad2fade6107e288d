"""Train a BERT whose activations outweigh its weights on batches of longer and longer rows, and print the peaks.

    python activation_memory.py float32|fp16

Prints a JSON object: bytes of the parameters, and the peak of resident memory after the step with rows of each length.
From one length to the next only activations grow.
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin  # noqa: F401  isort: skip

import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

LENGTHS, BATCH_SIZE = (4, 32, 64), 32
CONFIG = BertConfig(
    vocab_size=1000, hidden_size=256, num_hidden_layers=8, num_attention_heads=4, intermediate_size=1024,
    max_position_embeddings=LENGTHS[-1], num_labels=2,
)  # fmt: skip


class Peaks(TrainerCallback):
    """The largest resident memory of the process so far, after each step."""

    def __init__(self):
        self.of_steps = []

    def on_step_end(self, args, state, control, **kwargs):
        lines = Path("/proc/self/status").read_text().splitlines()
        self.of_steps.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")))


def main():
    chance = np.random.default_rng(0)
    lengths = np.repeat(LENGTHS, BATCH_SIZE)
    rows = [(chance.integers(0, 1000, length).astype(np.int32), np.int32(chance.integers(2))) for length in lengths]
    model, peaks = BertForSequenceClassification(CONFIG), Peaks()
    Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="unused",
            max_steps=len(LENGTHS),
            fp16=sys.argv[1] == "fp16",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(BATCH_SIZE),
        callbacks=[peaks],
    ).train()
    weights = sum(parameter.size * parameter.itemsize for parameter in model.parameters())
    print(json.dumps({"weights": weights, "peaks": dict(zip(LENGTHS, peaks.of_steps))}))


if __name__ == "__main__":
    main()
