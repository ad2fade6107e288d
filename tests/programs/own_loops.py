"""Train scenarios of the oracle by loops as users write them, prepared by ``dp.prepare``.

    python own_loops.py OUTPUT NUM_RANKS [WAY...]

A way is SCENARIO.KIND, where a kind is one of KINDS. Leaves what ``train_scenarios.py`` leaves, and of SAME_SETTINGS,
``trainer.<way>.rank<r>.npz``: what the Trainer makes of the same settings on these ranks.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, value_and_grad
from mindnlp.core.optim import SGD, AdamW
from mindnlp.core.optim.lr_scheduler import LambdaLR

from mindnlp_dp_plugin.ddp import host_memory
from tests.programs.scenarios import BATCH_SIZE, RUN, SCENARIOS
from tests.programs.tiny import seed_everything
from tests.programs.train_scenarios import in_float32, train

KINDS = {
    "plain": {},
    "everywhere": {},  # averages in each micro-step of an accumulation
    "returned": {},  # gradients are returned, in each micro-step, and attached by the loop
    "zero1": {"zero_stage": 1},
    "overflowing": {"fp16_initial_scale": 2.0**24},
}
WAYS = (
    *("bert_adamw.plain", "bert_sgd.plain", "accumulation_with_tail.plain", "accumulation_with_tail.everywhere"),
    *("accumulation_with_tail.returned", "epoch_shorter_than_accumulation.plain", "frozen_embeddings.plain"),
    *("unused_parameter.plain", "used_by_one_rank.plain", "tied_weights.plain", "lora.plain", "float32_masters.plain"),
    *("bert_adamw.zero1", "accumulation_with_tail.zero1"),
)
SAME_SETTINGS = ("bert_adamw.plain", "accumulation_with_tail.plain", "float32_masters.plain", "bert_adamw.overflowing")


def run(way, output, num_ranks):
    name, _, kind = way.partition(".")
    scenario = SCENARIOS[name]
    if kind == "overflowing":
        scenario = replace(scenario, arguments={"fp16": True})
    if way in SAME_SETTINGS:
        rows = scenario.dataset(num_ranks, BATCH_SIZE)
        here = f"trainer.{way}.rank{dp.get_rank()}"
        train(here, scenario, output, num_ranks, rows, scenario.accumulation, KINDS[kind])
    dp.install(dp.DataParallelConfig(**KINDS[kind]))
    seed_everything(3 + 10 * dp.get_rank())  # replicas start apart: the plugin makes them equal
    model = scenario.build_model(num_ranks)
    mindspore.set_seed(42)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = 1e-1 if scenario.optimizer == "sgd" else 1e-3
    sgd = scenario.optimizer == "sgd"
    optimizer = SGD(trained, lr=rate) if sgd else AdamW(trained, lr=rate, eps=1e-4, weight_decay=0.0)
    scheduler = LambdaLR(optimizer, lambda step: (scenario.num_steps - step) / scenario.num_steps)
    rows = scenario.dataset(num_ranks, BATCH_SIZE)
    precision = "fp16" if scenario.arguments.get("fp16") else "no"
    model, optimizer, rows, scheduler = dp.prepare(model, optimizer, rows, scheduler, mixed_precision=precision)

    attach = kind != "returned"
    grad_fn = value_and_grad(lambda batch: model(**batch)["loss"], trained, attach_grads=attach)
    noted = {"gradients": [], "digests": [], "losses": []}
    num_steps = num_micro_steps = 0
    loss_of_step, returned = 0.0, []
    model.set_train()
    while num_steps < scenario.num_steps:
        for number, batch in enumerate(rows.create_dict_iterator(), start=1):
            if num_steps == scenario.num_steps:
                break
            num_micro_steps += 1
            ends_short_epoch = len(rows) == number <= scenario.accumulation
            is_last = num_micro_steps % scenario.accumulation == 0 or ends_short_epoch
            with nullcontext() if is_last or kind == "everywhere" else dp.no_sync():
                result = grad_fn(batch)
            loss, gradients = (result, ()) if attach else result
            loss_of_step += loss.item()
            returned.append(gradients)
            if not is_last:
                continue
            for parameter, *parts in zip(trained, *returned) if not attach else ():
                parameter.grad = sum(parts[1:], parts[0])
            noted["gradients"].append(np.concatenate([in_float32(parameter.grad).ravel() for parameter in trained]))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            num_steps += 1
            parameters = b"".join(in_float32(parameter).tobytes() for parameter in model.parameters())
            noted["digests"].append(hashlib.sha256(parameters).hexdigest())
            noted["losses"].append(np.mean(dp.all_gather_object(loss_of_step)))
            loss_of_step, returned = 0.0, []
    values = np.concatenate([in_float32(parameter).ravel() for parameter in model.parameters()])
    np.savez(output / f"{way}.rank{dp.get_rank()}.npz", parameters=values, **noted)


if __name__ == "__main__":
    host_memory.RUN = RUN
    output_folder, ranks, *ways = sys.argv[1:]
    for way in ways or (*WAYS, "bert_adamw.overflowing"):
        run(way, Path(output_folder), int(ranks))
