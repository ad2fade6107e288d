"""What ``length_grouping.py`` starts on two ranks: train a small BERT on one data set, padded in each way.

    python padding_runs.py OUTPUT DATA MAX_LENGTH NUM_LAYERS

Leaves ``OUTPUT/runs.json``. The first run only warms up.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from mindnlp.engine import Trainer, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification
from mindspore import dataset, set_seed

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import Rows, prepare

ROWS_PER_RANK = 16
STEP = 8
SIZES = dict(hidden_size=128, num_attention_heads=4, intermediate_size=512)
# What a batch is padded to a multiple of, and whether rows are grouped; None: all to the maximal length.
WAYS = {"fixed": (None, False), "grouped": (STEP, True)}


class Batches:
    """A split, held in memory, so that reading it costs every way the same and little."""

    def __init__(self, folder, max_length):
        rows = Rows(folder)
        self._columns = rows.columns
        self._rows = [rows[number] for number in range(len(rows))]
        self._max_length = max_length

    def __call__(self, multiple, shuffle):
        columns = {name: 0 for name in self._columns if name != "labels"}  # [PAD] is token 0
        padding = dp.DynamicPadding(columns, multiple or self._max_length, self._max_length)
        rows = dataset.GeneratorDataset(self._rows, self._columns, shuffle=shuffle)
        return rows.batch(ROWS_PER_RANK, per_batch_map=padding, input_columns=padding.columns)

    @property
    def lengths(self):
        return [len(row[self._columns.index("input_ids")]) for row in self._rows]


class Counting(Trainer):
    """Counts the tokens that are computed, padding and all, and the time of the training steps."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_tokens = self.num_rows = 0

    def training_step(self, model, inputs):
        self.num_tokens += inputs["input_ids"].size
        self.num_rows += len(inputs["labels"])
        return super().training_step(model, inputs)


def run(output, data, train, dev, way, max_length, num_layers):
    multiple, group_by_length = WAYS[way]
    set_seed(0)
    config = BertConfig(
        vocab_size=len(data.tokenizer),
        max_position_embeddings=max_length,
        num_hidden_layers=num_layers,
        num_labels=2,
        **SIZES,
    )
    arguments = TrainingArguments(
        output_dir=str(output / "trainer"),
        num_train_epochs=1,
        learning_rate=5e-4,
        warmup_ratio=0.1,
        group_by_length=group_by_length,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Counting(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=train(multiple, shuffle=True),
        eval_dataset=dev(STEP, shuffle=False),
        compute_metrics=data.task.compute_metrics(data.facts),
    )
    dp.barrier()
    began = time.perf_counter()
    trainer.train()
    dp.barrier()
    seconds = time.perf_counter() - began
    tokens, rows = np.sum(dp.all_gather_object([trainer.num_tokens, trainer.num_rows]), axis=0).tolist()
    return {
        "seconds": seconds,
        "samples_per_second": rows / seconds,
        "tokens_per_row": tokens / rows,
        "accuracy": trainer.evaluate()["eval_accuracy"],
    }


def main():
    output, source = Path(sys.argv[1]), sys.argv[2]
    max_length, num_layers = map(int, sys.argv[3:])
    data = prepare(RecipeOptions(source, model="small-bert", max_length=max_length), output / "prepared")
    train, dev = (Batches(output / "prepared" / split, max_length) for split in ("train", "dev"))
    run(output, data, dev, dev, "fixed", max_length, num_layers)
    runs = {way: run(output, data, train, dev, way, max_length, num_layers) for way in WAYS}
    if dp.is_main_process():
        facts = {"rows": len(train.lengths), "mean_length": np.mean(train.lengths), "rows_in_dev": len(dev.lengths)}
        (output / "runs.json").write_text(json.dumps({**facts, "runs": runs}))


if __name__ == "__main__":
    main()
