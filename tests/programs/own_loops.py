"""Train scenarios of the oracle by loops as users write them, prepared by ``dp.prepare``.

    python own_loops.py OUTPUT NUM_RANKS WAY...

A way is SCENARIO, SCENARIO.everywhere (which averages in each micro-step of an accumulation), SCENARIO.returned (whose
gradients are returned, and attached by the loop), or SCENARIO.zero1. Leaves what ``train_scenarios.py`` leaves.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import hashlib
import sys
from contextlib import nullcontext
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn, value_and_grad
from mindnlp.core.optim import SGD, AdamW
from mindnlp.core.optim.lr_scheduler import LambdaLR

from tests.programs.scenarios import BATCH_SIZE, SCENARIOS
from tests.programs.tiny import seed_everything


def run(way, output, num_ranks):
    name, _, kind = way.partition(".")
    scenario = SCENARIOS[name]
    dp.install(dp.DataParallelConfig(zero_stage=int(kind == "zero1")))
    seed_everything(3 + 10 * dp.get_rank())  # replicas start apart: the plugin makes them equal
    model = scenario.build_model(num_ranks)
    mindspore.set_seed(42)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = 1e-1 if scenario.optimizer == "sgd" else 1e-3
    sgd = scenario.optimizer == "sgd"
    optimizer = SGD(trained, lr=rate) if sgd else AdamW(trained, lr=rate, eps=1e-4, weight_decay=0.0)
    scheduler = LambdaLR(optimizer, lambda step: 1 - step / scenario.num_steps)
    rows = scenario.dataset(num_ranks, BATCH_SIZE * num_ranks // dp.get_world_size())
    model, optimizer, rows, scheduler = dp.prepare(model, optimizer, rows, scheduler)

    attach = kind != "returned"
    grad_fn = value_and_grad(lambda batch: model(**batch)["loss"], trained, attach_grads=attach)
    noted = {"gradients": [], "digests": [], "losses": []}
    num_steps = num_micro_steps = 0
    loss_of_step = 0.0
    model.set_train()
    while num_steps < scenario.num_steps:
        for number, batch in enumerate(rows.create_dict_iterator(), start=1):
            num_micro_steps += 1
            ends_short_epoch = len(rows) == number <= scenario.accumulation
            is_last = num_micro_steps % scenario.accumulation == 0 or ends_short_epoch
            with nullcontext() if is_last or kind == "everywhere" else dp.no_sync():
                result = grad_fn(batch)
            loss, gradients = (result, [p.grad for p in trained]) if attach else result
            loss_of_step += loss.item()
            if not is_last or num_steps == scenario.num_steps:
                continue
            noted["gradients"].append(np.concatenate([gradient.asnumpy().ravel() for gradient in gradients]))
            for parameter, gradient in zip(trained, gradients):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            num_steps += 1
            parameters = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
            noted["digests"].append(hashlib.sha256(parameters).hexdigest())
            noted["losses"].append(np.mean(dp.all_gather_object(loss_of_step)))
            loss_of_step = 0.0
    values = np.concatenate([parameter.asnumpy().ravel() for parameter in model.parameters()])
    np.savez(output / f"{way}.rank{dp.get_rank()}.npz", parameters=values, **noted)


if __name__ == "__main__":
    output_folder, ranks, *ways = sys.argv[1:]
    for way in ways:
        run(way, Path(output_folder), int(ranks))
