"""Stop when the metric no longer improves, and keep the best model.

    mindnlp-dp run --nproc 2 early_stopping.py

Each rank evaluates its share and gets the metrics of all rows, so all ranks stop at the same step.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

from common import batches, small_model
from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainingArguments

arguments = TrainingArguments(
    output_dir="early_stopping_output",
    max_steps=40,
    learning_rate=0.03,  # too high on purpose: the loss soon stops falling
    evaluation_strategy="steps",
    eval_steps=2,
    save_strategy="steps",
    save_steps=2,
    save_total_limit=1,
    load_best_model_at_end=True,
    metric_for_best_model="loss",
    disable_tqdm=True,
)
trainer = Trainer(
    model=small_model(),
    args=arguments,
    train_dataset=batches("train"),
    eval_dataset=batches("test"),
    callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
)
trainer.train()
state = trainer.state
dp.print_rank_0(f"stopped at step {state.global_step} of 40; best loss {state.best_metric:.3f}")
