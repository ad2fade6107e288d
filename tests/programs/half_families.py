"""Train the tiny models of families in float32 and with ``fp16=True``, from the same weights on the same rows.

    python half_families.py OUTPUT NUM_STEPS CASE...

A CASE is ``bert/masked_lm``. Each adds a line to ``OUTPUT/losses.jsonl``: the loss of the first step, the mean over the
last epoch in either precision, and how many steps overflowed; or the error. The first that fails is the last.
"""

import json
import sys
import traceback
from pathlib import Path

import mindnlp_dp_plugin  # noqa: F401  isort: skip

from mindspore.dataset import GeneratorDataset

from tests.families import catalogue
from tests.families.configs import tiny_config
from tests.families.rows import rows
from tests.programs.tiny import Losses, seed_everything, tiny_trainer

BATCH_SIZE, STEPS_IN_EPOCH = 8, 8


class CountsSkipped(Losses):
    num_skipped = 0

    def on_log(self, args, state, control, logs=None, **kwargs):
        super().on_log(args, state, control)
        self.num_skipped = logs.get("skipped_steps", self.num_skipped)


def train(case, num_steps, output, fp16):
    """The loss of each step, and how many were skipped."""
    folder, head = case.split("/")
    model_class = catalogue.cases(folder)[head]
    seed_everything(5)
    model = model_class(tiny_config(folder, model_class.config_class, head))
    columns = rows(folder, model, head, BATCH_SIZE * STEPS_IN_EPOCH)
    dataset = GeneratorDataset([tuple(row.values()) for row in columns], list(columns[0]), shuffle=False)
    recorder, settings = CountsSkipped(), dict(fp16=fp16, max_steps=num_steps, logging_steps=1)
    tiny_trainer(output / "trainer", model, dataset.batch(BATCH_SIZE), callbacks=[recorder], **settings).train()
    return recorder.of_steps, recorder.num_skipped


def run(case, num_steps, output):
    try:
        full, _ = train(case, num_steps, output, fp16=False)
        half, num_skipped = train(case, num_steps, output, fp16=True)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    ends = {name: losses[-STEPS_IN_EPOCH:].mean() for name, losses in (("float32", full), ("fp16", half))}
    return {"first": full[0], **ends, "skipped": num_skipped}


if __name__ == "__main__":
    output, num_steps, *cases = sys.argv[1:]
    with Path(output, "losses.jsonl").open("w", buffering=1) as lines:
        for case in cases:
            outcome = run(case, int(num_steps), Path(output))
            print(json.dumps({"case": case, **outcome}), file=lines)
            if "error" in outcome:  # what fails within a gradient leaves MindSpore unfit for the next
                sys.exit(f"{case}:\n{outcome['traceback']}")
