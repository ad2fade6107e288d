"""Time whole steps of MindNLP's Trainer with a model of a family, then profile two.

    python family_steps.py OUTPUT FAMILY STEPS ROWS TOKENS

Rank r leaves OUTPUT/family_steps.rank<r>.json.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindnlp.transformers
import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindspore.dataset import GeneratorDataset

from benchmarks.programs import family_sizes
from benchmarks.programs.clock import Clock
from benchmarks.programs.shares import Profile
from mindnlp_dp_plugin.job.hardware import peak_memory

OUTPUT, FAMILY = Path(sys.argv[1]), sys.argv[2]
STEPS, ROWS, TOKENS = map(int, sys.argv[3:])
WARM_UP, PROFILED = 2, 2


def main():
    mindspore.set_seed(0)
    model = family_sizes.make(mindnlp.transformers, FAMILY)
    chance = np.random.default_rng(1)
    rows = [family_sizes.columns(FAMILY, chance, TOKENS) for _ in range(64 * ROWS)]
    rows = [tuple(np.asarray(column, np.int32) for column in row.values()) for row in rows]
    data = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(ROWS)
    num_timed = WARM_UP + 1 + STEPS
    clock, profile = Clock(), Profile(num_timed)
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / "trainer"), max_steps=num_timed + PROFILED, logging_steps=10**6, save_strategy="no",
        disable_tqdm=True, log_level="error",
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[clock, profile])
    before = peak_memory()
    trainer.train()
    ends = clock.ends[WARM_UP:num_timed]
    seconds = [end - begin for begin, end in zip(ends, ends[1:])]
    memory = {"memory_before": before, "peak_memory": peak_memory()}
    measured = {"seconds": seconds, **memory, "profile": profile.shares()}
    (OUTPUT / f"family_steps.rank{dp.get_rank()}.json").write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
