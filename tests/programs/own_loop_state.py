"""Save and go on, evaluate, and what is refused, in loops prepared by ``dp.prepare``.

    python own_loop_state.py OUTPUT NUM_RANKS

Started alone, one process takes the batches of NUM_RANKS ranks at once. Leaves OUTPUT/state.rank<r>.json.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, no_grad, value_and_grad
from mindnlp.core.optim import AdamW
from mindnlp.core.optim.lr_scheduler import LambdaLR

from tests.programs.tiny import tiny_dataset, tiny_model, tiny_rows

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK, WORLD_SIZE = dp.get_rank(), dp.get_world_size()
NUM_STEPS, SAVED_AT = 7, 3  # of 4 in an epoch


def prepared(mixed_precision="no"):
    mindspore.set_seed(42)
    model = tiny_model(seed=3 + RANK)  # with dropout
    mindspore.set_seed(42)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scheduler = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    rows = tiny_rows(8 * NUM_RANKS * 4, shuffle=True).batch(8 * NUM_RANKS // WORLD_SIZE)
    return dp.prepare(model, optimizer, rows, scheduler, mixed_precision=mixed_precision)


def digest(model):
    parameters = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(parameters).hexdigest()


def train(objects, until, folder=None):
    model, optimizer, rows, scheduler = objects
    gradients_of = value_and_grad(lambda batch: model(**batch).loss, tuple(model.parameters()))
    state = dp.load_state(folder) if folder else None
    step = state.num_steps if state else 0
    np.random.seed(5 + RANK)
    seen = []
    if state:
        seen.append(np.random.random())
    model.set_train()
    while step < until:
        for batch in rows.create_dict_iterator():
            gradients_of(batch)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            seen.append(digest(model))
            if step == SAVED_AT and folder is None:
                dp.save_state(OUTPUT / "states" / "state")
            if step == until:
                break
    return seen


def goes_on(mixed_precision):
    whole = train(prepared(mixed_precision), NUM_STEPS)
    _, *rest = train(prepared(mixed_precision), NUM_STEPS, OUTPUT / "states" / "state")
    return len(set(whole)) == NUM_STEPS and rest == whole[SAVED_AT:]


def evaluation():
    """(row numbers gathered in the loop, and behind it) of 101 rows in batches of 4, and of 3 rows: one batch."""
    model = tiny_model()
    rows, held, few = (tiny_dataset(size, 4) for size in (64, 101, 3))
    model, _, rows, held, few = dp.prepare(model, AdamW(model.parameters()), rows, held, few)
    found = []
    for share in (held, few):
        within, mine = [], []
        with no_grad():
            for batch in share.create_dict_iterator():
                within += dp.gather_for_metrics(batch["input_ids"]).sum(axis=1).tolist()
                mine.append(batch["input_ids"].asnumpy().sum(axis=1))
        found += [within, dp.gather_for_metrics(np.concatenate(mine)).tolist()]
    return found


def refusals():
    def said(action):
        try:
            action()
        except dp.DataParallelError as error:
            return str(error)
        return None

    model = tiny_model()
    optimizer = AdamW(model.parameters())
    trained = tuple(model.parameters())
    dp.prepare(model, optimizer, tiny_dataset())
    stock = mindspore.value_and_grad(lambda batch: model(**batch).loss, None, trained)
    batch = next(iter(tiny_dataset().create_dict_iterator()))

    def step_on_other_gradients():
        _, gradients = stock(batch)
        for parameter, gradient in zip(trained, gradients):
            parameter.grad = gradient
        optimizer.step()

    def save_with_gradients():
        value_and_grad(lambda: model(**batch).loss, trained)()
        dp.save_state(OUTPUT / "states" / "never")

    return [
        said(step_on_other_gradients),
        said(save_with_gradients),
        said(lambda: dp.prepare(model)),
        said(lambda: dp.prepare(model, optimizer, [batch])),
        said(lambda: dp.prepare(model, optimizer, mixed_precision="half")),
    ]


if __name__ == "__main__":
    found = {
        "goes_on": goes_on("no"),
        "goes_on_in_fp16": goes_on("fp16"),
        "evaluation": evaluation(),
        "refusals": refusals(),
    }
    (OUTPUT / f"state.rank{RANK}.json").write_text(json.dumps(found))
