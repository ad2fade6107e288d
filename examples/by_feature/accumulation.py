"""A batch larger than fits: several micro-steps for each optimizer step.

    mindnlp-dp run --nproc 2 accumulation.py

Gradients travel between the ranks once per optimizer step. MindNLP sums over
the micro-steps of a step, and so do ranks.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

from common import batches, small_model
from mindnlp.engine import Trainer, TrainingArguments

arguments = TrainingArguments(
    output_dir="accumulation_output",
    gradient_accumulation_steps=4,
    max_steps=3,
    learning_rate=1e-3,
    disable_tqdm=True,
)
trainer = Trainer(model=small_model(), args=arguments, train_dataset=batches("train"))
trainer.train()
rows = 8 * arguments.gradient_accumulation_steps * dp.get_world_size()
dp.print_rank_0(f"{trainer.state.global_step} optimizer steps of {rows} rows")
