"""A large Llama from its configuration: ``python large_model.py OUTPUT STAGE LAYERS CGROUP...``, one for each rank.

Each rank leaves ``OUTPUT/rank<r>.json``: parameters, losses, and the peak of its process.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import os
import resource
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import LlamaConfig, LlamaForCausalLM

OUTPUT, STAGE, LAYERS, *CGROUPS = sys.argv[1:]
NUM_STEPS, NUM_TOKENS = 3, 64

(Path(CGROUPS[dp.get_rank()]) / "cgroup.procs").write_text(str(os.getpid()))
dp.install(dp.DataParallelConfig(zero_stage=int(STAGE)))
chance = np.random.default_rng(0)
rows = [(words, words) for words in chance.integers(5, 30000, (NUM_STEPS * dp.get_world_size(), NUM_TOKENS), np.int32)]
data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(1)
config = LlamaConfig(hidden_size=2048, intermediate_size=5504, num_hidden_layers=int(LAYERS), num_attention_heads=16)
model = LlamaForCausalLM(config)
arguments = TrainingArguments(
    str(Path(OUTPUT) / "trainer"), max_steps=NUM_STEPS, logging_steps=1, save_strategy="no", disable_tqdm=True
)
trainer = Trainer(model, arguments, train_dataset=data)
trainer.train()
found = {
    "parameters": sum(parameter.size for parameter in model.parameters()),
    "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}
(Path(OUTPUT) / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
