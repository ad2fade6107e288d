"""What this door does not serve is refused by name, before anything is computed."""

import os
from collections.abc import Sized
from importlib.metadata import version

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError

OF_MINDNLP04 = ("zero_stage", "average_over", "elastic_determinism", "dispatch_batches")
ENGINES = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}
# `accelerate launch` sets it; TrainingArguments only for torch_compile, later, but children inherit what they set.
BY_ACCELERATE = "ACCELERATE_DYNAMO_BACKEND" in os.environ
YES = ("1", "true", "yes", "on")


def require_served(config: DataParallelConfig) -> None:
    """Refuse settings and ways to start that mean nothing with MindNLP 0.5.

    Raises:
        DataParallelError: Naming the first.
    """
    usual = DataParallelConfig()
    for name in OF_MINDNLP04:
        if (value := getattr(config, name)) != getattr(usual, name):
            raise DataParallelError(
                "{name}={value!r} is for MindNLP 0.4's Trainer: with MindNLP 0.5 leave it out.", name=name, value=value
            )
    for variable, engine in ENGINES.items():
        if os.environ.get(variable, "").lower() in YES:
            raise DataParallelError(
                "{variable}={value}: with MindNLP 0.5 there is no {engine}. Unset it: each rank holds the whole model.",
                variable=variable,
                value=os.environ[variable],
                engine=engine,
            )
    if BY_ACCELERATE:
        raise DataParallelError(
            "Ranks were started by `accelerate launch`, which starts torch's: start them with `mindnlp-dp run --nproc "
            "N script.py`, msrun or mpirun."
        )


def require_trainable(trainer, num_ranks: int) -> None:
    """Refuse what a Trainer asks for and ranks cannot do.

    Args:
        trainer: It is about to train.
        num_ranks: How many train together.

    Raises:
        DataParallelError: Naming the first such argument.
    """
    arguments = trainer.args
    for name, is_set in (
        ("auto_find_batch_size", arguments.auto_find_batch_size),
        ("split_batches", arguments.accelerator_config.split_batches),
        ("dispatch_batches", arguments.accelerator_config.dispatch_batches),
        ("even_batches", not arguments.accelerator_config.even_batches),
    ):
        if is_set:
            raise DataParallelError(
                "{name}={value!r}: with MindNLP 0.5, ranks cannot train with it. Leave it out.",
                name=name,
                value=getattr(arguments, name, getattr(arguments.accelerator_config, name, is_set)),
            )
    if trainer.accelerator.num_processes != num_ranks:
        raise DataParallelError(
            "accelerate {version} takes this rank for one of {found} processes, but there are {ranks}: each would "
            "train on the wrong rows. Use accelerate 1.11 to 1.15, and import the plugin before you make an "
            "Accelerator.",
            version=version("accelerate"),
            found=trainer.accelerator.num_processes,
            ranks=num_ranks,
        )
    if not isinstance(trainer.train_dataset, Sized):
        raise DataParallelError(
            "train_dataset ({type}) has no length: ranks cannot divide its rows. Give one with len().",
            type=type(trainer.train_dataset).__name__,
        )
