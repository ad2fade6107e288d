"""The peer: BERT-base under the Hugging Face Trainer, torch's DistributedDataParallel and Gloo, a core for each rank.

    torchrun --nproc-per-node 2 torch_trainer.py OUTPUT STEPS

Needs torch and transformers, nothing of this project. Rank r leaves OUTPUT/torch_trainer.rank<r>.json.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

RANK = int(os.environ["RANK"])

OUTPUT, STEPS = Path(sys.argv[1]), int(sys.argv[2])
WARM_UP = 2
BATCH_SIZE, NUM_TOKENS = 8, 128


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main():
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[RANK]})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig())
    chance = np.random.default_rng(1)
    rows = [
        {"input_ids": torch.tensor(chance.integers(4, 30522, NUM_TOKENS)), "labels": int(chance.integers(2))}
        for _ in range(64 * BATCH_SIZE)
    ]
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / "trainer"), max_steps=WARM_UP + 1 + STEPS, per_device_train_batch_size=BATCH_SIZE,
        use_cpu=True, ddp_backend="gloo", save_strategy="no", logging_steps=10**6, disable_tqdm=True, report_to=[],
        dataloader_pin_memory=False, ddp_find_unused_parameters=False,
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[clock]).train()
    seconds = [end - begin for begin, end in zip(clock.ends[WARM_UP:], clock.ends[WARM_UP + 1 :])]
    (OUTPUT / f"torch_trainer.rank{RANK}.json").write_text(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
