"""A script with one line more, for msrun, mpirun and others.

    python under_others.py OUTPUT

Each process that trains leaves a file of its own, in which is what it has trained.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import hashlib
import os
import sys
from pathlib import Path

from transformers import Trainer, TrainingArguments, set_seed

from tests.mindnlp05.programs import models

OUTPUT = Path(sys.argv[1])

set_seed(1)
model = models.bert()
batch = 8 // dp.get_world_size()
options = dict(max_steps=3, optim="sgd", save_steps=3, report_to=[], disable_tqdm=True)
arguments = TrainingArguments(str(OUTPUT / "training"), per_device_train_batch_size=batch, **options)
Trainer(model, arguments, train_dataset=models.Rows(24)).train()
values = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
(OUTPUT / f"process{os.getpid()}.txt").write_text(f"{dp.get_rank()} {hashlib.sha256(values).hexdigest()}")
