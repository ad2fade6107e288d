"""Score with metrics of your own, in the Trainer and in a loop of your own.

    mindnlp-dp run --nproc 2 own_metrics.py

`compute_metrics` sees every row of the data set once, in order, as in one process.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

import numpy as np
from common import batches, small_model
from mindnlp.engine import Trainer, TrainingArguments

from mindnlp_dp_plugin import metrics

f1 = metrics.load("f1")  # a metric that needs no hub


def compute_metrics(prediction):
    predicted, labels = prediction.predictions.argmax(-1), prediction.label_ids
    errors = np.flatnonzero(predicted != labels)
    return {
        "macro_f1": f1.compute(predictions=predicted, references=labels, average="macro")["f1"],
        "first_error": int(errors[0]) if len(errors) else -1,
        "rows": len(labels),
    }


arguments = TrainingArguments(output_dir="own_metrics_output", max_steps=4, learning_rate=1e-3, disable_tqdm=True)
trainer = Trainer(
    model=small_model(),
    args=arguments,
    train_dataset=batches("train"),
    eval_dataset=batches("test"),
    compute_metrics=compute_metrics,
)
trainer.train()
scores = trainer.evaluate()
dp.print_rank_0(f"macro F1 {scores['eval_macro_f1']:.3f} over {scores['eval_rows']} rows")

# Without the Trainer: each rank scores what it likes, and every rank gets all rows.
share = np.arange(10)[dp.get_rank() :: dp.get_world_size()]
squares = dp.gather_for_metrics(share**2)
dp.print_rank_0(f"gathered {len(squares)} rows")
