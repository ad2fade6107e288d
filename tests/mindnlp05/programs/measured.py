"""Train on padded rows while what is computed is measured, then with habits of the Trainer: measured.py OUTPUT

Leaves in ``rankN.json`` what each gave.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import json
import sys
from pathlib import Path

import numpy as np
from transformers import set_seed

from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.trainers.observe.flops import ModelFlops
from tests.mindnlp05.programs import models
from tests.programs.noted import refusal_of

OUTPUT = Path(sys.argv[1])
STEPS, BATCH = 7, 4
ROWS = models.Rows(STEPS * BATCH * 2, seed=3)


def trained(**options):
    set_seed(1)
    model = models.bert()
    usual = dict(max_steps=STEPS, optim="sgd", learning_rate=0.1, save_strategy="no")
    trainer = models.trainer_of(OUTPUT / "training", model, ROWS, **usual, **options)
    trainer.train()
    dp.check_replicas(model)
    return trainer


def weights(**options):
    return [digest(parameter) for parameter in trained(**options).model.parameters()]


if __name__ == "__main__":
    first = trained(include_num_input_tokens_seen="non_padding")
    flops, lengths = ModelFlops(first.model), ROWS.lengths
    found = {
        "tokens": int(lengths.sum()),
        "flops": flops.of(lengths, np.zeros(0, int)),
        "seen": int(first.state.num_input_tokens_seen),
        "compile": refusal_of(trained, torch_compile=True),
        "noisy": [weights(neftune_noise_alpha=5.0) for _ in range(2)],
        "plain": weights(),
        "smoothed": weights(label_smoothing_factor=0.1),
    }
    (OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
