"""A program of its own: be one of NPROC ranks until the optimizer would step, and print what that took.

    python -m mindnlp_dp_plugin.doctor.trial_steps NPROC STAGE [-m] SCRIPT [ARGUMENT ...]

The answer is JSON behind ``ANSWER``. The script runs as a rank of ``mindnlp-dp run`` does, until it calls
``Trainer.train()``. That goes through a few batches as always, but the optimizer's steps are left out, and after the
last the script ends. Nothing is trained, and nothing is written to ``output_dir``.
"""

import ctypes
import functools
import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import wrapt

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.pretended import PretendedRank
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.doctor.memory import ANSWER, NUM_STEPS
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.runtime import worker
from mindnlp_dp_plugin.trainers import mindnlp


class EnoughSteps(BaseException):
    """The optimizer would have stepped ``NUM_STEPS`` times."""


def try_instead_of_training(stage: int) -> None:
    """Let each Trainer that is made from now on end the script when it is told to train, after a trial of the stage."""

    def __init__(stock, trainer, *args, **kwargs):
        stock(trainer, *args, **kwargs)
        trainer.train = lambda *args, **kwargs: end_with_trial(trainer, stage)

    wrapt.register_post_import_hook(lambda module: Patches().stand_in(module.Trainer, __init__), mindnlp.MODULE)


def end_with_trial(trainer, stage: int) -> None:
    """Train for a few steps that the optimizer does not make, print what that took, and end the script.

    Args:
        trainer: The Trainer.
        stage: The stage of ZeRO.

    Raises:
        SystemExit: When that is done.
        DataParallelError: If training ends without a step.
    """
    from mindnlp_dp_plugin.trainers.observe.throughput import peak_memory

    args, config = trainer.args, getattr(trainer, "data_parallel_config", DataParallelConfig())
    trainer.data_parallel_config = replace(config, zero_stage=stage, resume=False, profile=None, async_save=False)
    trainer.callback_handler.callbacks = []
    found = {"model": type(trainer.model).__name__, "own_stage": config.zero_stage}
    leave_steps_out(trainer, found)
    if args.group_by_length:
        group_alone(trainer)
    process = resting_memory() - bytes_of(trainer.model)
    with TemporaryDirectory() as args.output_dir, suppress(EnoughSteps):
        args.save_on_each_node = False
        type(trainer).train(trainer)
        if trainer.state.global_step == 0:
            raise DataParallelError("train() ended before the optimizer's first step.")
    kept = found["parameter_bytes"] // (collectives.current().world_size if stage == 3 else 1)
    found.update(process_bytes=process, step_bytes=peak_memory() - process - kept)
    print(ANSWER + json.dumps(found), file=sys.__stdout__)
    sys.exit()


def leave_steps_out(trainer, found: dict) -> None:
    """Look at the optimizer when it is made, and count its steps instead of making them."""
    from mindnlp_dp_plugin.optim.parameters import stepped_parameters
    from mindnlp_dp_plugin.optim.state_size import bytes_of_states

    def create_optimizer_and_scheduler(stock, *args, **kwargs):
        stock(*args, **kwargs)
        parameters = stepped_parameters(trainer.optimizer)
        found.update(
            optimizer=type(trainer.optimizer).__name__,
            trained=sum(parameter.size for parameter in parameters),
            largest=max(parameter.size for parameter in parameters),
            parameter_bytes=bytes_of(trainer.model),
            gradient_bytes=sum(parameter.nbytes for parameter in parameters),
            state_bytes=bytes_of_states(trainer.optimizer),
        )
        trainer.optimizer.step = functools.wraps(trainer.optimizer.step)(count)  # the scheduler has marked it

    steps = iter(range(1, NUM_STEPS))

    def count(*args, **kwargs):
        if (step := next(steps, None)) is None:
            raise EnoughSteps
        if step == 1 and trainer.data_parallel_config.zero_stage == 3:
            resting_memory()  # counts the peak anew: before, parameters were whole

    Patches().stand_in(trainer, create_optimizer_and_scheduler)


def group_alone(trainer) -> None:
    """Ranks measure a part of the rows each; peers that are not there cannot. The longest rows come first."""
    from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length

    rows = shard_by_length(trainer.get_train_dataset(), trainer.args, SingleProcess())
    trainer.args.group_by_length = False
    trainer.get_train_dataset = lambda: rows


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
        Path("/proc/self/clear_refs").write_text("5")  # the peak, proc(5)
    return psutil.Process().memory_info().rss


def main(nproc: int, stage: int, command: list[str]) -> None:
    """Run the script; its ``train()`` ends it with the answer."""
    if nproc > 1:
        collectives.pretend(PretendedRank(nproc))
    try_instead_of_training(stage)
    worker.install(RankInfo(world_size=nproc, local_world_size=nproc))
    worker.run_script(command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
