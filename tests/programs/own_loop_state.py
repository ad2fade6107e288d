"""Save and go on, evaluate, and what is refused, in loops prepared by ``dp.prepare``.

    python own_loop_state.py OUTPUT NUM_RANKS [stopped|gone_on|all] [FOLDER]

Started alone, one process takes the batches of NUM_RANKS ranks at once. Leaves OUTPUT/state.rank<r>.json. With
``stopped``, the last rank gets a signal in mid-epoch, and the same command goes on from what was saved; leaves
OUTPUT/stopped.rank<r>.json. With FOLDER, the output of another number of ranks, a loop without dropout, which those
saved in mid-epoch, goes on: with ``gone_on`` nothing else.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, no_grad, value_and_grad
from mindnlp.core.optim import SGD, AdamW
from mindnlp.core.optim.lr_scheduler import LambdaLR

from tests.programs.noted import digest_of, flat, refusal_of
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_rows, without_dropout

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK, WORLD_SIZE = dp.get_rank(), dp.get_world_size()
NUM_STEPS, SAVED_AT, STRUCK_AT = 7, 3, 5  # of 4 in an epoch


def prepared(mixed_precision="no"):
    mindspore.set_seed(42)
    model = tiny_model(seed=3 + RANK)  # with dropout
    mindspore.set_seed(42)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scheduler = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    rows = tiny_rows(8 * NUM_RANKS * 4, shuffle=True).batch(8 * NUM_RANKS // WORLD_SIZE)
    return dp.prepare(model, optimizer, rows, scheduler, mixed_precision=mixed_precision)


def train(objects, until, folder=None, stopped_in=None, saved_in="state", saved_at=SAVED_AT):
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
            seen.append(digest_of(model))
            if step == saved_at and folder is None:
                dp.save_state(OUTPUT / "states" / saved_in)
            if step == until:
                break
            if stopped_in and dp.should_stop():
                dp.save_state(stopped_in)
            if stopped_in and not folder and step == STRUCK_AT and RANK == WORLD_SIZE - 1:
                os.kill(os.getpid(), signal.SIGTERM)
    return seen


def stopped():
    folder = OUTPUT / "states" / "stopped"
    return train(prepared(), NUM_STEPS, folder if folder.exists() else None, folder)[-1]


def elsewhere(folder=None):
    """Its weights after NUM_STEPS; on fewer or more ranks each has more or fewer rows."""
    mindspore.set_seed(42)
    model = without_dropout()
    optimizer = SGD(model.parameters(), lr=1e-1)
    rows = tiny_rows(8 * NUM_RANKS * 4, shuffle=True).batch(8 * NUM_RANKS // WORLD_SIZE)
    objects = dp.prepare(model, optimizer, rows, LambdaLR(optimizer, lambda step: 1 / (1 + step)))
    train(objects, NUM_STEPS, folder, saved_in="elsewhere")
    return values_of(model)


def goes_on(mixed_precision, saved_at=SAVED_AT):
    whole = train(prepared(mixed_precision), NUM_STEPS, saved_at=saved_at)
    _, *rest = train(prepared(mixed_precision), NUM_STEPS, OUTPUT / "states" / "state")
    return len(set(whole)) == NUM_STEPS and rest == whole[saved_at:] and whole[-1]


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


def values_of(model):
    return flat(model).tolist()


def pair():
    """A generator and a critic, each with an optimizer of its own, and what saving them says."""
    mindspore.set_seed(3 + RANK)
    generator, critic = nn.Linear(12, 12), nn.Linear(12, 1)
    mindspore.set_seed(42)
    of_generator, of_critic = AdamW(generator.parameters(), lr=1e-2, eps=1e-4), SGD(critic.parameters(), lr=1e-2)
    rows = tiny_dataset(16 * NUM_RANKS, 4 * NUM_RANKS // WORLD_SIZE)
    generator, of_generator, rows = dp.prepare(generator, of_generator, rows)
    critic, of_critic = dp.prepare(critic, of_critic)
    of_real_and_made = value_and_grad(
        lambda batch: (critic(generator(batch)) ** 2).mean() - critic(batch).mean(), tuple(critic.parameters())
    )
    of_made = value_and_grad(lambda batch: -critic(generator(batch)).mean(), tuple(generator.parameters()))
    for batch in rows.create_dict_iterator():
        words = batch["input_ids"].astype(mindspore.float32) / 96
        of_real_and_made(words)
        nn.utils.clip_grad_norm_(critic.parameters(), 0.1)
        of_critic.step()
        of_critic.zero_grad()
        of_made(words)
        of_generator.step()
        of_generator.zero_grad()
    return {"values": values_of(generator) + values_of(critic), "said": refusal_of(dp.save_state, OUTPUT / "pair")}


def head_alone_is_stepped():
    """Gradients of all parameters are asked for and clipped, of which the optimizer steps the last few."""
    model = without_dropout(seed=3 + RANK)
    mindspore.set_seed(42)
    optimizer = AdamW(model.classifier.parameters(), lr=1e-3, eps=1e-4)
    rows = tiny_dataset(8 * NUM_RANKS * 4, 8 * NUM_RANKS // WORLD_SIZE)
    model, optimizer, rows = dp.prepare(model, optimizer, rows)
    gradients_of = value_and_grad(lambda batch: model(**batch).loss, tuple(model.parameters()))
    for number, batch in enumerate(rows.create_dict_iterator(), start=1):
        with dp.no_sync() if number % 2 else nullcontext():
            gradients_of(batch)
        if number % 2 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            optimizer.zero_grad()
    return values_of(model.classifier)


def refusals():
    model = tiny_model()
    optimizer = AdamW(model.parameters())
    trained = tuple(model.parameters())
    dp.prepare(model, optimizer, tiny_dataset())
    stock = mindspore.value_and_grad(lambda batch: model(**batch).loss, None, trained)
    batch = next(iter(tiny_dataset().create_dict_iterator()))

    def step_on_other_gradients(optimizer=optimizer):
        _, gradients = stock(batch)
        for parameter, gradient in zip(trained, gradients):
            parameter.grad = gradient
        optimizer.step()

    def save_with_gradients():
        value_and_grad(lambda: model(**batch).loss, trained)()
        dp.save_state(OUTPUT / "states" / "never")

    def share_out_gradients():
        dp.install(dp.DataParallelConfig(zero_stage=2))
        dp.prepare(model, optimizer)

    def step_beside():
        dp.install()
        dp.prepare(model, optimizer)
        step_on_other_gradients(SGD(model.parameters(), lr=1e-2))

    return [
        refusal_of(step_on_other_gradients),
        refusal_of(save_with_gradients),
        refusal_of(dp.prepare, model),
        refusal_of(dp.prepare, model, optimizer, [batch]),
        refusal_of(dp.prepare, model, optimizer, mixed_precision="half"),
        refusal_of(dp.prepare, model, optimizer, SGD(model.parameters(), lr=1e-2)),
        refusal_of(share_out_gradients),
        refusal_of(step_beside),
    ]


def everything():
    return {
        "goes_on": goes_on("no"),
        "goes_on_in_fp16": goes_on("fp16"),
        "goes_on_behind_the_last_batch_of_an_epoch": goes_on("no", saved_at=4),
        "elsewhere": elsewhere(),
        "evaluation": evaluation(),
        "pair": pair(),
        "head_alone_is_stepped": head_alone_is_stepped(),
        "refusals": refusals(),
    }


if __name__ == "__main__":
    what, *folder = sys.argv[3:] or ["all"]
    if what == "stopped":
        (OUTPUT / f"stopped.rank{RANK}.json").write_text(json.dumps(stopped()))
    else:
        found = {"gone_on": elsewhere(Path(*folder, "states", "elsewhere"))} if folder else {}
        found |= everything() if what == "all" else {}
        (OUTPUT / f"state.rank{RANK}.json").write_text(json.dumps(found))
