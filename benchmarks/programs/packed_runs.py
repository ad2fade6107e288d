"""What ``packing.py`` starts on ranks: train a small Qwen2 for an epoch on one set of chats, in each way.

    python packed_runs.py OUTPUT CHATS MAX_LENGTH ROWS_PER_RANK

Leaves ``OUTPUT/runs.json``: of each epoch the tokens that were read, padding not counted, and the seconds. Packing
leaves out chats whose answers were cut off. The first run only warms up. A packed step holds about as many tokens as a
padded one.
"""

import json
import sys
import time
from pathlib import Path

import datasets
from mindnlp.engine import TrainingArguments
from mindspore import set_seed

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.data import packed_rows_of
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.training import RecipeTrainer

WAYS = ("padded", "grouped", "packed")


def run(output, data, options, way, rows_per_rank):
    set_seed(0)
    train = data.pipeline("train", rows_per_rank, shuffle=True, packing=way == "packed")
    arguments = TrainingArguments(
        output_dir=str(output / "trainer"), num_train_epochs=1, learning_rate=1e-3, group_by_length=way == "grouped",
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    model = data.task.load_model(data.model.path, data.facts, **data.model.how)
    trainer = RecipeTrainer(data, options, model=model, args=arguments, train_dataset=train)
    dp.barrier()
    began = time.perf_counter()
    steps = trainer.train().global_step
    dp.barrier()
    return {"seconds": time.perf_counter() - began, "steps": steps, "rows_per_rank": rows_per_rank}


def main(output, chats, max_length, rows_per_rank):
    output = Path(output)
    options = get_task("causal-lm").options(dataset=chats, model="small-qwen2", max_length=int(max_length))
    data = prepare(options, output / "data", "causal-lm")
    rows = datasets.load_from_disk(str(output / "data/train"))
    padded, num_tokens = int(rows_per_rank), sum(map(len, rows["input_ids"]))
    packed = packed_rows_of(data.pipeline("train", padded, packing=True))
    num_packed = round(packed.fullness * len(packed) * packed.seq_length)
    fewer = max(1, round(padded * len(packed) / len(rows)))
    runs = {}
    for way in (WAYS[0], *WAYS):
        is_packed = way == "packed"
        runs[way] = run(output, data, options, way, fewer if is_packed else padded)
        runs[way]["tokens"] = num_packed if is_packed else num_tokens
    if dp.is_main_process():
        found = {"chats": len(rows), "packed_rows": len(packed), "fullness": packed.fullness}
        (output / "runs.json").write_text(json.dumps({**found, "runs": runs}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
