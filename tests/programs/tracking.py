"""Train with a TensorBoardCallback, in one process or on ranks, and leave what the callback is to have written.

    python tracking.py OUTPUT PEAK_TFLOPS

Leaves ``OUTPUT/<run>.json`` and each rank's TensorBoard files under ``OUTPUT/<run>_of_rank<r>``; what ``get_logger``
says is in the ranks' logs. The last run is measured beside a peak of PEAK_TFLOPS.
"""

import json
import logging
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

import numpy as np
from mindnlp.core import nn
from mindnlp.engine import Trainer, TrainerCallback
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin.trainers.observe.flops import ModelFlops
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OUTPUT, PEAK_TFLOPS = Path(sys.argv[1]), float(sys.argv[2])
RANK, WORLD_SIZE = dp.get_rank(), dp.get_world_size()
ACCUMULATION = 2
LATE_S = 0.1  # by so much the last rank is late in each micro-step
LENGTH, BATCH, STEPS = 16, 4, 4  # of the run that is measured


class MeasuredTrainer(Trainer):
    """Computes anew, and slowly, what the callback gets for nothing."""

    norms, waits, seconds = {}, {}, {}
    micro_steps = elsewhere = 0

    def training_step(self, model, inputs):
        if RANK == WORLD_SIZE - 1:
            time.sleep(LATE_S)
        loss = super().training_step(model, inputs)
        self.micro_steps += 1
        if self.micro_steps % ACCUMULATION == 0:
            squares = [np.square(p.grad.asnumpy().astype(np.float64)).sum() for p in model.parameters()]
            self.norms[self.micro_steps // ACCUMULATION] = float(np.sqrt(sum(squares)))
        return loss

    def log(self, logs):
        if "loss" in logs:
            self.waits[self.state.global_step] = waited_seconds()
            self.seconds[self.state.global_step] = time.perf_counter() - self.elsewhere
        super().log(logs)

    def evaluate(self, *args, **kwargs):
        return self._timed(super().evaluate, *args, **kwargs)

    def _save_checkpoint(self, *args, **kwargs):
        return self._timed(super()._save_checkpoint, *args, **kwargs)

    def _timed(self, function, *args, **kwargs):
        began = time.perf_counter()
        result = function(*args, **kwargs)
        self.elsewhere += time.perf_counter() - began
        return result


def time_waits():
    """Returns what tells how long this process has waited for all-reduces."""
    if WORLD_SIZE == 1:
        return lambda: 0.0
    from mindnlp_dp_plugin.collectives.mpi import MpiWork
    from mindnlp_dp_plugin.collectives.windows import WindowWork

    total = [0.0]
    for work in (MpiWork, WindowWork):

        def timed_wait(self, wait=work.wait):
            began = time.perf_counter()
            wait(self)
            total[0] += time.perf_counter() - began

        work.wait = timed_wait
    return lambda: total[0]


waited_seconds = time_waits()


class Interrupt(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 5:
            raise InterruptedError


def slow_metric(prediction):
    time.sleep(0.3)
    return {"rows": len(prediction.predictions), "per_class": [0.25, 0.75]}


def whole():
    """A run with evaluations and a save, which take their time, and evaluations after it."""
    trainer = tiny_trainer(
        OUTPUT / "whole",
        trainer_type=MeasuredTrainer,
        callbacks=[dp.TensorBoardCallback(OUTPUT / f"whole_of_rank{RANK}")],
        gradient_accumulation_steps=ACCUMULATION,
        max_steps=6,
        max_grad_norm=0.1,
        evaluation_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=5,
        log_level="info",
    )
    trainer.eval_dataset = tiny_dataset(num_rows=20)
    trainer.compute_metrics = slow_metric
    trainer.train()
    trainer.evaluate(metric_key_prefix="test")
    trainer.evaluate()
    of_ranks = dp.all_gather_object([trainer.waits, trainer.norms])
    leave(trainer, "whole", of_ranks=of_ranks, seconds=trainer.seconds)


def resumed():
    """A run that raises in step 5, and one that goes on from its second step. Nothing is clipped."""
    stock_clip = nn.utils.clip_grad_norm_
    settings = dict(max_steps=6, logging_steps=1, save_strategy="steps", save_steps=2, max_grad_norm=0)
    settings["log_level"] = "error"
    runs = OUTPUT / "resumed" / "runs"
    first = tiny_trainer(
        OUTPUT / "resumed",
        callbacks=[dp.TensorBoardCallback(), Interrupt()],
        logging_dir=str(runs / f"first_of_rank{RANK}"),
        **settings,
    )
    try:
        first.train()
    except InterruptedError:
        open_files = [file.resolve().name for file in Path("/proc/self/fd").iterdir()]
    second = tiny_trainer(
        OUTPUT / "resumed",
        callbacks=[dp.TensorBoardCallback()],
        logging_dir=str(runs / f"second_of_rank{RANK}"),
        **settings,
    )
    second.train(resume_from_checkpoint=str(OUTPUT / "resumed" / "checkpoint-2"))
    left_open = [name for name in open_files if "tfevents" in name]
    leave(second, "resumed", left_open=left_open, clipping_is_stock=nn.utils.clip_grad_norm_ is stock_clip)


def padded_rows():
    chance = np.random.default_rng(7)
    for _ in range(BATCH * STEPS * ACCUMULATION * 2):
        mask = (np.arange(LENGTH) < chance.integers(3, LENGTH + 1)).astype(np.int64)
        yield chance.integers(4, 96, LENGTH) * mask, mask, np.int64(chance.integers(3))


class Seconds(TrainerCallback):
    ends = []

    def on_train_begin(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def measured():
    """A run on padded rows of which is known what is computed."""
    dp.install(dp.DataParallelConfig(peak_tflops=PEAK_TFLOPS))
    rows, model, seconds = list(padded_rows()), tiny_model(), Seconds()
    columns = ["input_ids", "attention_mask", "labels"]
    trainer = tiny_trainer(
        OUTPUT / "measured",
        model,
        GeneratorDataset(rows, columns, shuffle=False).batch(BATCH * 2 // WORLD_SIZE),
        callbacks=[dp.TensorBoardCallback(OUTPUT / f"measured_of_rank{RANK}"), seconds],
        max_steps=STEPS,
        logging_steps=1,
        gradient_accumulation_steps=ACCUMULATION,
        log_level="info",  # the run before wanted errors alone
    )
    trainer.train()
    lengths = np.array([mask.sum() for _, mask, _ in rows]).reshape(STEPS, -1)  # one step of all ranks each
    flops = ModelFlops(model)
    expected = {
        "tokens": lengths.sum(1).tolist(),
        "flops": [flops.of(step, step[:0]) for step in lengths],
        "padding": 1 - lengths.mean() / LENGTH,
        "seconds": np.diff(seconds.ends).tolist(),
    }
    leave(trainer, "measured", expected=expected)


def leave(trainer, name, **rest):
    if dp.is_main_process():
        left = {"history": trainer.state.log_history, "args": trainer.args.to_dict(), **rest}
        (OUTPUT / f"{name}.json").write_text(json.dumps(left, default=str))


def say(when):
    logger = dp.get_logger("script")
    for level in ("info", "warning", "error"):
        getattr(logger, level)("%s the Trainer: %s", when, level)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="SCRIPT %(message)s", stream=sys.stdout)
    say("before")
    whole()
    tiny_trainer(OUTPUT / "quiet", log_level_replica="error")
    say("after")
    resumed()
    measured()
