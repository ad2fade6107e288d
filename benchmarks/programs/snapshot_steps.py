"""Train BERT-base on ranks: ``python snapshot_steps.py OUTPUT NUM_STEPS``.

Rank 0 leaves ``OUTPUT/steps.json``: the seconds of each step, from one beginning to the next, and those between the end
of a step and the beginning of the next.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from benchmarks.programs.clock import Clock

OUTPUT, NUM_STEPS = Path(sys.argv[1]), int(sys.argv[2])
WARM_UP = 2
BATCH_SIZE, NUM_TOKENS = 8, 128


chance = np.random.default_rng(0)
num_rows = BATCH_SIZE * NUM_STEPS * dp.get_world_size()
rows = [(chance.integers(5, 1000, NUM_TOKENS).astype(np.int32), np.int32(i % 2)) for i in range(num_rows)]
arguments = TrainingArguments(
    str(OUTPUT / f"trainer{dp.get_rank()}"), max_steps=NUM_STEPS, save_strategy="no", disable_tqdm=True
)
data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"]).batch(BATCH_SIZE)
clock = Clock()
Trainer(BertForSequenceClassification(BertConfig()), arguments, train_dataset=data, callbacks=[clock]).train()
if dp.is_main_process():
    steps = np.diff(clock.begins)[WARM_UP:]
    stops = np.subtract(clock.begins[1:], clock.ends[:-1])[WARM_UP:]
    (OUTPUT / "steps.json").write_text(json.dumps({"steps": steps.tolist(), "stops": stops.tolist()}))
