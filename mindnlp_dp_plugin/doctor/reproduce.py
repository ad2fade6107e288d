"""Which numbers of ranks train a run's model again, to the last bit, and by which command."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import xxhash

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.environment import environment
from mindnlp_dp_plugin.checkpoint.record import Record
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import of_setting
from mindnlp_dp_plugin.language import tr

WEIGHTS = ("*.safetensors", "*.ckpt", "*.bin")
NOT_WEIGHTS = ("optimizer", "scheduler", "rng_state", "training_args")


def lines_of(run: Path) -> Iterator[str]:
    """What the user is told of a run.

    Args:
        run: Its ``output_dir``, or one of its checkpoints.

    Raises:
        DataParallelError: If there is no whole checkpoint.
    """
    checkpoint = run if (run / store.RECORD).exists() else next(store.whole_in(run), None)
    if checkpoint is None:
        raise DataParallelError(
            "{run!r} holds no whole checkpoint: give the output_dir of a run that saved one, or a checkpoint.",
            run=str(run),
        )
    record = store.read_record(checkpoint)
    settings = record.settings
    known = {"checkpoint": str(checkpoint), "ranks": settings.world_size}
    num = settings.world_size * settings.gradient_accumulation_steps
    if not settings.elastic_determinism:
        yield tr(
            "{checkpoint} was trained without elastic_determinism: {ranks} ranks reproduce it, other numbers up to "
            "rounding. To have the same bits on others, train with {variable}=1.",
            **known,
            variable=of_setting("elastic_determinism"),
        )
        return
    yield tr("{checkpoint} was trained on {ranks} ranks, {num} micro-batches a step.", **known, num=num)
    yield tr("weights {digest}", digest=_digest(checkpoint))
    yield tr("The same bits, and the same digest, come from:")
    script = shlex.join(record.command or ["train.py"])
    for ranks in filter(lambda size: num % size == 0, range(1, num + 1)):
        yield f"  {of_setting('elastic_determinism')}={num} mindnlp-dp run --nproc {ranks} {script}"
    yield tr("Give it an output_dir of its own.")
    yield from _differences(record)


def _digest(checkpoint):
    """Of the model's or the adapter's weights."""
    files = sorted({file for pattern in WEIGHTS for file in checkpoint.rglob(pattern)})
    weights = [file for file in files if file.name.partition(".")[0] not in NOT_WEIGHTS]
    return xxhash.xxh3_128_hexdigest("".join(map(store.digest, weights)).encode())


def _differences(record: Record) -> Iterator[str]:
    here = environment()
    for name, there in (record.environment or {}).items():
        if there != here.get(name):
            yield tr(
                "Here bits may differ: {name} was {there}, and is {here}.", name=name, there=there, here=here.get(name)
            )
