"""The peer: a model under the Hugging Face Trainer, torch's DistributedDataParallel and Gloo, a core for each rank.

    [torchrun --nproc-per-node 2] torch_trainer.py OUTPUT FAMILY STEPS ROWS TOKENS

Needs torch and transformers, nothing of this project but ``family_sizes``. Rank r leaves
OUTPUT/torch_trainer.rank<r>.json.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments

sys.path.insert(0, str(Path(__file__).parent))

from family_sizes import columns, make

RANK = int(os.environ.get("RANK", 0))
OUTPUT, FAMILY = Path(sys.argv[1]), sys.argv[2]
STEPS, ROWS, TOKENS = map(int, sys.argv[3:])
BACKEND = "gloo" if "RANK" in os.environ else None
WARM_UP, PROFILED = 2, 2
NUM_TIMED = WARM_UP + 1 + STEPS
PRODUCTS = {"aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm"}


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())
        if len(self.ends) == NUM_TIMED:
            self.profile.start()
        elif len(self.ends) == NUM_TIMED + PROFILED:
            self.profile.stop()

    def shares(self):
        """Shares of the time by operator."""
        operators = Counter()
        for operator in self.profile.key_averages():
            operators["products" if operator.key in PRODUCTS else operator.key] += operator.self_cpu_time_total
        return {name: time / operators.total() for name, time in operators.most_common()}


def peak_memory():
    """What this process has held at most so far, in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def main():
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[RANK]})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = make(transformers, FAMILY)
    chance = np.random.default_rng(1)
    rows = [columns(FAMILY, chance, TOKENS) for _ in range(64 * ROWS)]
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / "trainer"), max_steps=NUM_TIMED + PROFILED, per_device_train_batch_size=ROWS,
        use_cpu=True, ddp_backend=BACKEND, save_strategy="no", logging_steps=10**6, disable_tqdm=True, report_to=[],
        dataloader_pin_memory=False, ddp_find_unused_parameters=False,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[clock])
    before = peak_memory()
    trainer.train()
    ends = clock.ends[WARM_UP:NUM_TIMED]
    seconds = [end - begin for begin, end in zip(ends, ends[1:])]
    memory = {"memory_before": before, "peak_memory": peak_memory()}
    measured = {"seconds": seconds, **memory, "profile": {"operators": clock.shares()}}
    (OUTPUT / f"torch_trainer.rank{RANK}.json").write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
