"""The training of which version 0.2.0 has written ``tests/distributed/checkpoint_of_0.2.0.zip`` after 2 steps of 6.

    python earlier_version.py OUTPUT...

It goes on from what lies in each ``OUTPUT``, and leaves its weights in ``OUTPUT/end.npz``.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import sys
from pathlib import Path

import numpy as np

from tests.programs.either_trainer import rows
from tests.programs.noted import weights_of
from tests.programs.tiny import tiny_model, tiny_trainer


def train(output):
    model = tiny_model(hidden_size=8, num_hidden_layers=1, intermediate_size=16, max_position_embeddings=16)
    trainer = tiny_trainer(output, model, rows(), save_strategy="steps", save_steps=2, max_steps=6, logging_steps=1)
    trainer.train(resume_from_checkpoint=any(output.glob("checkpoint-*")))
    if dp.is_main_process():
        np.savez(output / "end.npz", *weights_of(model))


for folder in sys.argv[1:]:
    train(Path(folder))
