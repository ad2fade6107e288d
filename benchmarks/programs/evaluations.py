"""Time ``Trainer.evaluate()``. Rank 0 leaves OUTPUT/seconds.json.

python evaluations.py OUTPUT MODEL NUM_ROWS ROUNDS
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
import time
from pathlib import Path

from mindnlp.engine import Trainer, TrainingArguments

from benchmarks.programs import models

OUTPUT, MODEL, NUM_ROWS, ROUNDS = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])

if __name__ == "__main__":
    arguments = TrainingArguments(output_dir=str(OUTPUT / "trainer"), disable_tqdm=True, log_level="error")
    trainer = Trainer(model=models.make(MODEL), args=arguments)
    taken = []
    for _ in range(1 + ROUNDS):
        dp.barrier()
        began = time.perf_counter()
        trainer.evaluate(models.dataset(MODEL, NUM_ROWS))
        taken.append(time.perf_counter() - began)
    if dp.is_main_process():
        (OUTPUT / "seconds.json").write_text(json.dumps(taken[1:]))
