"""What comparing the replicas costs beside a step of BERT-base, on 2 ranks.

    mindnlp-dp run --nproc 2 benchmarks/replica_check.py

Rank 0 writes ``benchmarks/results/replica-check_<hardware>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from mindnlp.core.autograd import value_and_grad

from benchmarks.programs import models
from benchmarks.record import write_results
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.replicas import check_parameters, make_replicas

ROUNDS = 5
CHECKS_PER_EPOCH = 3  # after the first step, before the checkpoint, at the end


def main():
    collective = collectives.current()
    model = models.make("bert-base")
    make_replicas(model, collective)
    model.set_train()
    reducer = GradientReducer(list(model.parameters()), collective)
    ids, labels = map(np.stack, zip(*models.rows("bert-base", 8)))
    batch = {"input_ids": mindspore.Tensor(ids), "labels": mindspore.Tensor(labels)}
    step = value_and_grad(lambda: model(**batch).loss, tuple(model.parameters()))

    def averaged_step():
        reducer.prepare()
        step()
        reducer.finish()
        model.zero_grad()

    steps, checks = [], []
    for _ in range(ROUNDS + 1):
        steps.append(seconds(averaged_step))
        checks.append(seconds(lambda: check_parameters(model.named_parameters(), collective, 1)))
    if dp.get_rank() == 0:
        of_step, of_check = statistics.median(steps[1:]), statistics.median(checks[1:])
        of_epoch = CHECKS_PER_EPOCH * of_check
        write_results(
            "replica-check",
            {"step_seconds": steps[1:], "check_seconds": checks[1:]},
            f"One comparison of BERT-base's parameters takes {1000 * of_check:.0f} ms. Forward, backward and averaging "
            f"of 8 x 128 tokens a rank take {of_step:.2f} s (medians of {ROUNDS}). {CHECKS_PER_EPOCH} comparisons are "
            f"{of_epoch / (1000 * of_step):.4%} of an epoch of 1000 steps, and below 0.2% of one of "
            f"{of_epoch / (0.002 * of_step):.0f} steps or more.",
        )


def seconds(function):
    collectives.current().barrier()
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
