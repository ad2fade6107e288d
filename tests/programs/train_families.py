"""Train the tiny models of families, and leave what became of them in a folder, model by model.

    python train_families.py OUTPUT EMULATED_RANKS CHECKS CASE...

A CASE is ``bert/masked_lm``. Started as ranks, EMULATED_RANKS is their number; started alone, how many ranks' batches
the one process takes at once. CHECKS is ``all`` (initial weights, and that a saved model is loaded as it was) or
``none``; or ``shared``: without checks, once with layers that compute again in backward, and once with parameters
shared out, which leaves ``<case>.zero3.rank<r>.npz``.
Each rank writes ``<case>.rank<r>.npz``, and into ``journal.rank<r>.jsonl`` a line before each case and one after it;
the first that fails is the last.
"""

import json
import shutil
import sys
import time
import traceback
from itertools import product
from pathlib import Path

import mindspore
import numpy as np
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin
from tests.families import catalogue, weights
from tests.families.configs import tiny_config
from tests.families.rows import rows
from tests.programs.tiny import Losses, seed_everything, tiny_trainer

BATCH_SIZE = 2
NUM_STEPS = 3


def train(model, columns, num_ranks, output, recompute):
    """Mean loss of each step."""
    dataset = GeneratorDataset([tuple(row.values()) for row in columns], list(columns[0]), shuffle=False)
    losses, batches = Losses(), dataset.batch(BATCH_SIZE * num_ranks)
    settings = dict(max_steps=NUM_STEPS, logging_steps=1, recompute=recompute)
    # Adam divides a gradient by its own size: below eps it does not, so that a gradient which is zero but for rounding
    # (1e-9, of a key's bias) moves its parameter by 1e-9 and not by the learning rate.
    tiny_trainer(output, model, batches, callbacks=[losses], adam_epsilon=1e-3, **settings).train()
    return losses.of_steps


def parameters_of(model):
    with mindnlp_dp_plugin.gathered_parameters(model):
        return {name: parameter.asnumpy().copy() for name, parameter in model.named_parameters()}


def outputs_of(model, columns):
    """What a model says of rows, as a flat list of arrays."""
    model.set_train(False)
    batch = {name: mindspore.Tensor(np.stack([row[name] for row in columns])) for name in columns[0]}
    return list(arrays_in(model(**batch)))


def arrays_in(outputs):
    if isinstance(outputs, mindspore.Tensor):
        yield outputs.asnumpy()
    elif isinstance(outputs, dict):
        yield from arrays_in(list(outputs.values()))
    elif isinstance(outputs, (list, tuple)):
        for part in outputs:
            yield from arrays_in(part)


def check_saving(model, columns, folder):
    model.save_pretrained(str(folder))
    loaded = type(model).from_pretrained(str(folder))
    shutil.rmtree(folder)
    saved_parameters, parameters = parameters_of(model), parameters_of(loaded)
    changed = [name for name, value in saved_parameters.items() if not np.array_equal(value, parameters[name])]
    assert not changed, f"loaded otherwise than saved: {', '.join(changed)}"
    expected, outputs = outputs_of(model, columns), outputs_of(loaded, columns)
    same = len(expected) == len(outputs) and all(map(np.array_equal, expected, outputs))
    assert same, "a loaded model says something else"


def run(case, output, emulated_ranks, checks, stage_of_zero=0):
    folder, head = case.split("/")
    name = case.replace("/", ".") + (f".zero{stage_of_zero}" if stage_of_zero else "")
    stage = "built"
    try:
        model_class = catalogue.cases(folder)[head]
        config = tiny_config(folder, model_class.config_class, head)
        if checks == "all":
            weights.check_all_are_set(lambda: model_class(config))
        seed_everything(5)
        model = model_class(config)
        if checks == "all":
            weights.check_are_drawn(folder, model)
        before = parameters_of(model)
        stage = "trained"
        num_batches = NUM_STEPS * emulated_ranks
        columns = rows(folder, model, head, BATCH_SIZE * num_batches)
        num_ranks = emulated_ranks // mindnlp_dp_plugin.get_world_size()
        losses = train(model, columns, num_ranks, output / "trainer", checks == "shared" and not stage_of_zero)
        after = parameters_of(model)
        assert np.isfinite(losses).all(), f"the losses are {losses}"
        if checks == "all":
            still = [name for name in before if np.array_equal(before[name], after[name])]
            moved = [name for name in before if name not in still]
            assert moved, "no parameter changed"
        np.savez(
            output / f"{name}.rank{mindnlp_dp_plugin.get_rank()}.npz",
            losses=losses,
            before=np.concatenate([value.ravel() for value in before.values()]),
            after=np.concatenate([value.ravel() for value in after.values()]),
        )
        stage = "saved"
        if checks == "all":
            check_saving(model, columns[:2], output / "saved")
    except Exception as error:
        return {"stage": stage, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    return {"stage": "done"}


if __name__ == "__main__":
    output, emulated_ranks, checks, *cases = sys.argv[1:]
    with Path(output, f"journal.rank{mindnlp_dp_plugin.get_rank()}.jsonl").open("w", buffering=1) as journal:
        for case, stage in product(cases, (0, 3) if checks == "shared" else (0,)):
            if checks == "shared":
                mindnlp_dp_plugin.install(mindnlp_dp_plugin.DataParallelConfig(zero_stage=stage))
            print(json.dumps({"case": case, "stage": "begun"}), file=journal)
            begin = time.monotonic()
            outcome = run(case, Path(output), int(emulated_ranks), checks, stage)
            seconds = round(time.monotonic() - begin, 2)
            print(json.dumps({"case": case, "seconds": seconds, **outcome}), file=journal)
            if "error" in outcome:  # what fails within a gradient leaves MindSpore unfit for the next
                sys.exit(f"{case}:\n{outcome['traceback']}")
