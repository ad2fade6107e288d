"""Batch rows of similar length, so that less padding is computed.

    mindnlp-dp run --nproc 2 length_grouping.py

`group_by_length` chooses which rows meet in a batch; `dp.DynamicPadding` pads each batch to its longest row.
"""

import mindnlp_dp_plugin as dp  # isort: skip  (first: makes MindNLP importable and joins the other ranks)

from common import TOKENIZER, rows, small_model
from mindnlp.engine import Trainer, TrainingArguments

widths = []


class TrainerThatNotesWidths(Trainer):
    def training_step(self, model, inputs):
        widths.append(inputs["input_ids"].shape[1])
        return super().training_step(model, inputs)


padding = dp.DynamicPadding({"input_ids": TOKENIZER.pad_token_id, "attention_mask": 0}, pad_to_multiple_of=8)
batches = rows("train").batch(8, per_batch_map=padding, input_columns=padding.columns)
arguments = TrainingArguments(
    output_dir="length_grouping_output", max_steps=12, group_by_length=True, disable_tqdm=True
)
TrainerThatNotesWidths(model=small_model(), args=arguments, train_dataset=batches).train()
dp.print_rank_0(f"batches from {min(widths)} to {max(widths)} tokens wide")
