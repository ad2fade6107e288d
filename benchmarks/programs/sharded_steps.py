"""BERT-base with a stage of ZeRO: ``python sharded_steps.py OUTPUT STAGE NUM_STEPS BATCH_SIZE NUM_TOKENS``.

Each rank leaves ``OUTPUT/rank<r>.json``: bytes of the optimizer's states and the peak of the process, the seconds of
each step, and the bytes of the messages that it gave to the collectives in a step.
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
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.job.hardware import peak_memory
from mindnlp_dp_plugin.optim.sharded import states_of

OUTPUT, STAGE, NUM_STEPS, BATCH_SIZE, NUM_TOKENS = Path(sys.argv[1]), *map(int, sys.argv[2:])
WARM_UP = 2


def counting(name, sizes):
    """Note the bytes of each message that this rank gives to a collective."""
    group, collective = collectives.current(), getattr(collectives.current(), name)

    def counted(buffer, *more):
        sizes.append(buffer.size * buffer.itemsize)
        return collective(buffer, *more)

    setattr(group, name, counted)


dp.install(dp.DataParallelConfig(zero_stage=STAGE))
chance = np.random.default_rng(0)
num_rows = BATCH_SIZE * NUM_STEPS * dp.get_world_size()
rows = [(chance.integers(5, 30000, NUM_TOKENS).astype(np.int32), np.int32(i % 2)) for i in range(num_rows)]
data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(BATCH_SIZE)
arguments = TrainingArguments(str(OUTPUT / "trainer"), max_steps=NUM_STEPS, save_strategy="no", disable_tqdm=True)
clock, reduced, scattered, gathered = Clock(), [], [], []
model = BertForSequenceClassification(BertConfig())
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[clock])
counting("all_reduce", reduced)
counting("reduce_scatter", scattered)
counting("all_gather", gathered)
trainer.train()
group = collectives.current()
if STAGE:
    states = states_of(trainer.optimizer).num_bytes
else:
    kept = (value for state in trainer.optimizer.state.values() for value in state.values())
    states = sum(value.nbytes for value in kept if isinstance(value, mindspore.Tensor))
measured = {
    "parameters": sum(parameter.size for parameter in model.parameters()),
    "state_bytes": states,
    "peak_bytes": peak_memory(),
    "seconds": np.diff(clock.ends)[WARM_UP:].tolist(),
    "all_reduced_bytes": sum(reduced) / NUM_STEPS,
    "reduce_scattered_bytes": sum(scattered) / NUM_STEPS,
    "gathered_bytes": sum(gathered) / NUM_STEPS,
}
(OUTPUT / f"rank{group.rank}.json").write_text(json.dumps(measured))
