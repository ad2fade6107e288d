"""The same global batch on another number of ranks, by more or less accumulation."""

from collections.abc import Iterator
from contextlib import contextmanager

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import replaced


@contextmanager
def fixed_micro_batches(arguments, world_size: int, micro_batches: int | None) -> Iterator[None]:
    """While entered, a step accumulates so that it is of so many micro-batches on any number of ranks.

    Args:
        arguments: The TrainingArguments.
        world_size: The ranks that train.
        micro_batches: How many; None if that is not set.

    Raises:
        DataParallelError: If they cannot be divided among the ranks.
    """
    if micro_batches and micro_batches % world_size:
        raise DataParallelError(
            "elastic_determinism={in_a_step}: so many micro-batches cannot be divided among {world_size} ranks. Use "
            "one of these numbers of ranks: {fitting}.",
            in_a_step=micro_batches,
            world_size=world_size,
            fitting=", ".join(map(str, divisors(micro_batches))),
        )
    accumulation = micro_batches // world_size if micro_batches else arguments.gradient_accumulation_steps
    with replaced(arguments, "gradient_accumulation_steps", accumulation):
        yield


@contextmanager
def same_as_before(trainer, world_size: int, checkpoint: str | None) -> Iterator[None]:
    """While entered, a training that goes on by itself on another number of ranks accumulates as much more or less.

    Where the script has changed its batch size or accumulation, it means another global batch, and nothing is done.

    Args:
        trainer: The Trainer.
        world_size: The ranks that train now.
        checkpoint: From which it goes on by itself; None if it does not.

    Raises:
        DataParallelError: If the batches of a step cannot be divided among the ranks.
    """
    accumulation = trainer.args.gradient_accumulation_steps
    record = store.read_record(checkpoint) if checkpoint else None
    if record and record.settings.world_size != world_size:
        before = record.settings
        asked_for = (before.batch_size, record.nominal_accumulation or before.gradient_accumulation_steps)
        if asked_for == (trainer.get_train_dataset().get_batch_size(), accumulation):
            in_a_step = before.world_size * before.gradient_accumulation_steps
            if in_a_step % world_size:
                raise DataParallelError(
                    "{checkpoint}: the {in_a_step} batches of a step cannot be divided among {world_size} ranks. Use "
                    "one of these numbers of ranks: {fitting}.",
                    checkpoint=checkpoint,
                    in_a_step=in_a_step,
                    world_size=world_size,
                    fitting=", ".join(map(str, divisors(in_a_step))),
                )
            accumulation = in_a_step // world_size
    with replaced(trainer.args, "gradient_accumulation_steps", accumulation):
        yield


def divisors(number: int) -> list[int]:
    """The numbers of ranks that share so many micro-batches out evenly."""
    return [ranks for ranks in range(1, number + 1) if number % ranks == 0]
