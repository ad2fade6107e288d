"""A large Llama from its configuration: ``python large_model.py OUTPUT STAGE LAYERS CGROUP...``, one for each rank.

It trains, evaluates and saves; behind the first checkpoint rank 1 kills itself, unless this is a restart. Each rank
leaves ``OUTPUT/rank<r>.json``: parameters, losses, seconds of each step, its peak at each stage, and what a product of
its matrices does in a second.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import os
import signal
import sys
import time
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core.optim import SGD
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.programs.clock import Clock
from mindnlp_dp_plugin.job.hardware import peak_memory
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import RESTART

OUTPUT, STAGE, LAYERS, *CGROUPS = sys.argv[1:]
OUTPUT = Path(OUTPUT)
NUM_STEPS, NUM_TOKENS, SAVED_AT, KILLED_AT = 4, 64, 2, 3
WIDTH, INNER = 2048, 5504
RESTARTS = int(told(RESTART) or 0)
PEAKS = {}

(Path(CGROUPS[dp.get_rank()]) / "cgroup.procs").write_text(str(os.getpid()))


class Story(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        note(f"step {state.global_step}")
        if state.global_step == KILLED_AT and dp.get_rank() == 1 and RESTARTS == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_evaluate(self, args, state, control, **kwargs):
        note("evaluated")

    def on_save(self, args, state, control, **kwargs):
        note(f"saved at {state.global_step}")


def note(what):
    PEAKS[what] = peak_memory()


def gigaflops():
    """Of a layer's product, on the cores of this rank."""
    rows, matrix = np.ones((NUM_TOKENS, WIDTH), np.float32), np.ones((INNER, WIDTH), np.float32)
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        rows @ matrix.T
        seconds.append(time.perf_counter() - begin)
    return 2 * NUM_TOKENS * WIDTH * INNER / min(seconds) / 1e9


dp.install(dp.DataParallelConfig(zero_stage=int(STAGE)))
chance = np.random.default_rng(0)
rows = [(words, words) for words in chance.integers(5, 30000, (NUM_STEPS * dp.get_world_size(), NUM_TOKENS), np.int32)]
data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(1)
held = mindspore.dataset.GeneratorDataset(rows[:2], ["input_ids", "labels"], shuffle=False).batch(1)
config = LlamaConfig(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=int(LAYERS), num_attention_heads=16)
model = LlamaForCausalLM(config)
note("built")
arguments = TrainingArguments(
    str(OUTPUT / "trainer"), max_steps=NUM_STEPS, logging_steps=1, save_steps=SAVED_AT, save_total_limit=1,
    evaluation_strategy="steps", eval_steps=SAVED_AT, disable_tqdm=True, lr_scheduler_type="constant",
)  # fmt: skip
clock = Clock()
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=held, callbacks=[Story(), clock])
trainer.optimizer = SGD(model.parameters(), lr=1e-3, momentum=0.9)
trainer.train()
note("trained")
loss = trainer.evaluate()["eval_loss"]
note("evaluated behind training")
trainer.save_model(str(OUTPUT / "saved"))
note("model saved")
found = {
    "parameters": sum(parameter.size for parameter in model.parameters()),
    "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    "eval_loss": loss,
    "restarts": RESTARTS,
    "seconds": [end - begin for begin, end in zip(clock.begins, clock.ends)],
    "gigaflops": gigaflops(),
    "peaks": PEAKS,
    "peak_bytes": peak_memory(),
}
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
