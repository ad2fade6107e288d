"""A script with one line more, for msrun, mpirun and others.

    python under_others.py OUTPUT

Each process that trains leaves a file of its own, in which is what it has trained.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import os
import sys
from pathlib import Path

from transformers import set_seed

from tests.mindnlp05.programs import models
from tests.programs.noted import digest_of

OUTPUT = Path(sys.argv[1])

set_seed(1)
model = models.bert()
options = dict(max_steps=3, optim="sgd", save_steps=3, per_device_train_batch_size=8 // dp.get_world_size())
models.trainer_of(OUTPUT / "training", model, models.Rows(24), **options).train()
(OUTPUT / f"process{os.getpid()}.txt").write_text(f"{dp.get_rank()} {digest_of(model)}")
