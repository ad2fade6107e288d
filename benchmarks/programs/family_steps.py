"""Time whole steps of MindNLP's Trainer with a model of a family.

    python family_steps.py OUTPUT FAMILY STEPS

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

OUTPUT, FAMILY, STEPS = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
WARM_UP = 2


def main():
    mindspore.set_seed(0)
    model = family_sizes.make(mindnlp.transformers, FAMILY)
    chance = np.random.default_rng(1)
    rows = [family_sizes.columns(FAMILY, chance) for _ in range(64 * family_sizes.BATCH_SIZE)]
    rows = [tuple(np.asarray(column, np.int32) for column in row.values()) for row in rows]
    data = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(family_sizes.BATCH_SIZE)
    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / "trainer"), max_steps=WARM_UP + 1 + STEPS, logging_steps=10**6, save_strategy="no",
        disable_tqdm=True, log_level="error",
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[clock]).train()
    seconds = [end - begin for begin, end in zip(clock.ends[WARM_UP:], clock.ends[WARM_UP + 1 :])]
    (OUTPUT / f"family_steps.rank{dp.get_rank()}.json").write_text(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
