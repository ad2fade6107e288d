"""A program of its own: be one of NPROC ranks until the optimizer would step, and print what that took.

    python -m mindnlp_dp_plugin.doctor.trial_steps NPROC STAGE SCRIPT
    python -m mindnlp_dp_plugin.doctor.trial_steps NPROC STAGE MODEL BATCH LENGTH FP16

The answer is JSON behind ``ANSWER``. The script, or the example of MODEL, runs as a rank of ``mindnlp-dp run`` does,
until it calls ``Trainer.train()``. That goes through a few batches as always, but the optimizer's steps are left out,
and with the last the process ends. Nothing is trained, and nothing is written to ``output_dir``.
"""

import ctypes
import functools
import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.pretended import PretendedRank
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.doctor.memory import ANSWER, NUM_STEPS
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.runtime import worker
from mindnlp_dp_plugin.trainers import mindnlp as trainer

WRITES_NOTHING = {"resume": False, "trace": None, "snapshot_every": 0, "async_save": False}
PEAK = "5"  # what clear_refs resets, proc(5)


class EndOfTrial(BaseException):
    """Enough steps were left out."""


class Trial:
    """One call of ``train()`` in which the optimizer's steps are counted only.

    Args:
        trainer: The Trainer.
        own_stage: The ``zero_stage`` that its script has set.
    """

    def __init__(self, trainer, own_stage: int):
        self._trainer = trainer
        self._found = {"model": type(trainer.model).__name__, "own_stage": own_stage}
        self._num_steps = 0

    def run(self, train) -> dict:
        """What ``train`` of this Trainer took, for ``memory.Trial``."""
        from mindnlp_dp_plugin.trainers.mindnlp.observe.throughput import peak_memory

        args = self._trainer.args
        self._trainer.callback_handler.callbacks = []
        Replacements().stand_in(self._trainer, self.create_optimizer_and_scheduler)
        if args.group_by_length:
            self._group_alone(args)
        process = resting_memory() - bytes_of(self._trainer.model)
        with TemporaryDirectory() as args.output_dir, suppress(EndOfTrial):
            args.save_on_each_node = False
            train(self._trainer)
        if self._num_steps == 0:
            raise DataParallelError("train() ended before the optimizer's first step.")
        return {
            **self._found,
            "process_bytes": process,
            "step_bytes": peak_memory() - process - self._found["parameter_bytes"],
        }

    def _group_alone(self, args):
        """Ranks measure a part of the rows each; peers that are not there cannot. The longest rows come first."""
        from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length

        rows = shard_by_length(self._trainer.get_train_dataset(), args, SingleProcess())
        args.group_by_length = False
        Replacements().replace(type(self._trainer), "get_train_dataset", lambda _: rows)

    def create_optimizer_and_scheduler(self, stock, *args, **kwargs):
        """Look at the optimizer, and let it not step."""
        from mindnlp_dp_plugin.optim.parameters import stepped_parameters
        from mindnlp_dp_plugin.optim.state_size import bytes_of_states

        stock(*args, **kwargs)
        optimizer = self._trainer.optimizer
        parameters = stepped_parameters(optimizer)
        self._found |= {
            "optimizer": type(optimizer).__name__,
            "trained": sum(parameter.size for parameter in parameters),
            "largest": max(parameter.size for parameter in parameters),
            "parameter_bytes": bytes_of(self._trainer.model),
            "gradient_bytes": sum(parameter.nbytes for parameter in parameters),
            "state_bytes": bytes_of_states(optimizer),
        }

        @functools.wraps(optimizer.step)  # the learning rate scheduler has marked it
        def step(*args, **kwargs):
            self._num_steps += 1
            if self._num_steps == NUM_STEPS:
                raise EndOfTrial

        optimizer.step = step


def bytes_of(model) -> int:
    """Of parameters and buffers; 0 if there is no model yet."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())) if model is not None else 0


def resting_memory() -> int:
    """Bytes this process holds now; the peak is counted anew from here."""
    import mindspore
    import psutil

    if mindspore.get_context("device_target") == "Ascend":
        mindspore.runtime.reset_peak_memory_stats()
        return mindspore.runtime.memory_allocated()
    with suppress(AttributeError):  # not in every C library
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(PEAK)
    return psutil.Process().memory_info().rss


def try_train(stage: int) -> list[dict]:
    """From now on, ``Trainer.train()`` is a trial of this ``zero_stage``; its answer gets into the list."""
    stock_hook, answers = trainer.hook, []

    def hook(trainer_base, group, config, replacements):
        stock_hook(trainer_base, group, replace(config, zero_stage=stage, **WRITES_NOTHING), replacements)

        def train(stock, self, *args, **kwargs):
            answers.append(Trial(self, config.zero_stage).run(stock))
            sys.exit()

        replacements.stand_in(trainer_base.Trainer, train)

    trainer.hook = hook
    return answers


def main(nproc: int, stage: int, what: str, *example: str) -> None:
    """Run the script, or the example of a model."""
    if nproc > 1:
        collectives.pretend(PretendedRank(nproc))
    answers = try_train(stage)
    worker.install(RankInfo(world_size=nproc, local_world_size=nproc))
    try:
        if example:
            train_example(what, *map(int, example))
        else:
            worker.run_script([what])
    except SystemExit:
        if not answers:
            raise
    if not answers:
        raise DataParallelError("The script has ended without Trainer.train().")
    print(ANSWER + json.dumps(answers[0]))


def train_example(name: str, batch: int, length: int, fp16: int) -> None:
    """Train a model on random tokens."""
    from mindnlp_dp_plugin.doctor.example import build, train

    train(build(name), batch, length, bool(fp16))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
