"""Train with shared-out states, save and go on: ``python saving_peak.py OUTPUT STAGE``.

Each rank leaves in ``OUTPUT/rank<r>.json`` the peak of its process before the checkpoint, after it, and after all that
may follow, and the largest bucket, in bytes.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from mindnlp_dp_plugin.job.hardware import peak_memory

OUTPUT, STAGE = Path(sys.argv[1]), int(sys.argv[2])
NUM_STEPS = 3


class Peaks(TrainerCallback):
    before = after = 0

    def on_step_end(self, args, state, control, **kwargs):
        self.before = peak_memory()

    def on_save(self, args, state, control, **kwargs):
        self.after = peak_memory()


dp.install(dp.DataParallelConfig(zero_stage=STAGE))
chance = np.random.default_rng(0)
rows = [(chance.integers(5, 30000, 8).astype(np.int32), np.int32(row % 2)) for row in range(2 * NUM_STEPS)]
data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(1)
arguments = TrainingArguments(
    str(OUTPUT / "trainer"),
    max_steps=NUM_STEPS,
    save_steps=NUM_STEPS,
    evaluation_strategy="steps",
    eval_steps=NUM_STEPS,
    load_best_model_at_end=True,
    disable_tqdm=True,
)
model = BertForSequenceClassification(BertConfig(num_hidden_layers=12, hidden_size=512, num_attention_heads=8))
peaks = Peaks()
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=[peaks])
trainer.train()
trainer.evaluate()
trainer.predict(data)
trainer.save_model(str(OUTPUT / "saved"))
trainer.train(resume_from_checkpoint=str(OUTPUT / f"trainer/checkpoint-{NUM_STEPS}"))
end = peak_memory()
largest = max(4 * parameter.size for parameter in model.parameters())
found = {"before": peaks.before, "after": peaks.after, "end": end, "largest_bucket": largest}
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(found))
