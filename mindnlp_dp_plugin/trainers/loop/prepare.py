"""``dp.prepare``: a loop of one's own trains as the Trainer does."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import mindspore

from mindnlp_dp_plugin.collectives import Collective, compared_at_the_end, current
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data.evaluation import shard_for_evaluation
from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.mixed_precision import Masters, can_compute_in
from mindnlp_dp_plugin.optim.parameters import set_aside, stepped_parameters
from mindnlp_dp_plugin.patching import Patches, replaced
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.step.common_seed import common_seed
from mindnlp_dp_plugin.step.dispatching import dispatch_training_rows
from mindnlp_dp_plugin.step.packed_rows import require_packed_rows_read
from mindnlp_dp_plugin.step.preemption import Preemption
from mindnlp_dp_plugin.step.pynative import require_pynative
from mindnlp_dp_plugin.step.same_data import require_same_rows
from mindnlp_dp_plugin.step.training_rows import shard_training_rows
from mindnlp_dp_plugin.trainers.loop.door import LoopDoor
from mindnlp_dp_plugin.trainers.loop.gradients import loops, settings
from mindnlp_dp_plugin.trainers.loop.other_gradients import NotStepped
from mindnlp_dp_plugin.trainers.loop.rows import HeldRows, TrainingRows

DTYPES = {"no": None, "fp16": mindspore.float16, "bf16": mindspore.bfloat16}
DEFAULT_SEED = 42

logger = logging.getLogger(__name__)


class Loop:
    """A model, its optimizer and its rows, prepared.

    Args:
        model: What is trained.
        optimizer: What steps it.
        collective: The ranks that train together.
        config: The settings.
        dtype: What forward computes in; None for the model's own.

    Attributes:
        config: The same.
        door: The loop as the core sees it.
        step: Its step.
        rows: What it trains on, if that was prepared, too.
        scheduler: What sets its learning rate, if that was prepared, too.
        num_steps_before: Optimizer steps before another loop was prepared.
    """

    def __init__(self, model, optimizer, collective: Collective, config: DataParallelConfig, dtype):
        require_pynative()
        own = mindspore.get_seed()
        seed = common_seed("mindspore.set_seed", DEFAULT_SEED if own is None else own, collective)
        self.door = LoopDoor(model, optimizer, seed, dtype, collective)
        self._patches = Patches()
        if dtype is not None:
            Masters().make(model)
        self.step = Step(self.door, collective, config, self._patches)
        self.door.count_steps(self.step.optimizer_steps)
        self._collective, self.config = collective, config
        self._not_stepped: dict[tuple, NotStepped] = {}
        self.rows: TrainingRows | None = None
        self.scheduler = None
        self.num_steps_before = 0
        compared_at_the_end.append(self._digest)

    def follow(self, scheduler) -> None:
        """Take what sets the learning rate, and let it stay where a step is left out."""
        self.scheduler = scheduler
        self.step.precision.hold_rate(lambda: self.scheduler, self._patches)

    def steps_any(self, parameters) -> bool:
        """Whether its optimizer steps one of these."""
        return bool(_ids(stepped_parameters(self.door.optimizer)) & _ids(parameters))

    @contextmanager
    def attaching_to(self, targets: tuple) -> Iterator[None]:
        """A context for a micro-step that attaches gradients to these parameters, whichever the optimizer steps."""
        stepped = _ids(stepped_parameters(self.door.optimizer))
        others = [parameter for parameter in targets if id(parameter) not in stepped]
        if not others:
            yield
            return
        key = tuple(map(id, others))
        if key not in self._not_stepped:
            self._not_stepped[key] = NotStepped(others, self._collective, self.config, self.step.precision)
        with self._not_stepped[key].averaged(self.door.clock.is_syncing):
            yield

    def is_repeated(self, columns: Mapping) -> bool:
        """Whether a batch is another rank's, too, so that all have as many."""
        return TrainingRows.knows_as_repeated(columns.values())

    def columns_of(self, function: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
        """The batch that a function of the loss is called with, by name.

        Tensors that come from the rows have the names of their columns, others those of the function's arguments. A
        function that is given nothing computes the batch that was read last.

        Raises:
            DataParallelError: If that cannot be, as all batches of the pass were taken before.
        """
        read = TrainingRows.read_last.latest if TrainingRows.read_last is not None else {}
        if not (args or kwargs):
            if read and not TrainingRows.read_last.is_under_way:
                if TrainingRows.read_last is not self.rows or self._collective.world_size == 1:
                    return {}
                raise DataParallelError(
                    "A function of gradients got no batch, and the rows' pass is over: which batch it computes is not "
                    "known, so ranks cannot weigh it. Pass the batch to the function: gradients_of(batch)."
                )
            return read
        columns = dict(kwargs)
        with suppress(TypeError, ValueError):  # not every callable tells its arguments
            columns = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        for name, value in list(columns.items()):
            if isinstance(value, Mapping):
                columns |= columns.pop(name)
        given = {id(value) for value in (*columns.values(), *args, *kwargs.values())}
        given |= {id(value) for each in args if isinstance(each, (list, tuple)) for value in each}
        return columns | {name: value for name, value in read.items() if id(value) in given}

    def set_aside(self, targets: tuple):
        """A context for a micro-step that attaches nothing."""
        return set_aside({id(p): p for p in (*targets, *stepped_parameters(self.door.optimizer))}.values())

    def require_scaled_gradients(self) -> None:
        """Raise if gradients that wait for the step were unscaled: a scaled one cannot be added."""
        if self.step.precision.scaler and self.step.averaged_waiting:
            raise DataParallelError(
                "mixed_precision='fp16' with accumulation: gradients of the batch before were averaged and unscaled. "
                "Compute those of all batches of a step but the last within `with dp.no_sync():`."
            )

    def _digest(self):
        """Of what it has stepped."""
        if self.config.check_replicas_every == 0:
            return {}
        has_stepped = self.door.num_steps > 0
        named = self.step.stepped.named if has_stepped else {}
        return {None: has_stepped, **{name: digest(parameter) for name, parameter in named.items()}}

    def close(self) -> None:
        """Let model and optimizer go."""
        compared_at_the_end.remove(self._digest)
        self.step.close()
        self._patches.undo()


def prepare(*objects: Any, mixed_precision: str = "no") -> Any:
    """Make a loop of your own over MindNLP's model train data-parallel. All ranks must call it, before the loop.

    The replicas start equal, the rows are sharded as the Trainer's are, and a function of
    ``mindnlp.core.value_and_grad`` for the optimizer's parameters attaches (or returns) gradients that are averaged
    over all ranks, in buckets while backward runs. It works in one process, too.

    Args:
        *objects: One model and one optimizer, of MindNLP; the rows to train on, as a batched MindSpore data set, and
            any further ones to evaluate on; a learning rate scheduler. In any order, each but the model and the
            optimizer may be left out. For a second model with an optimizer of its own call it again.
        mixed_precision: ``"fp16"`` or ``"bf16"``: what forward computes in; weights that train become float32. fp16
            scales the loss, and leaves out steps whose gradients overflow; the scheduler waits. ``"no"``: the model's
            own.

    Returns:
        What it was given, in the same order; rows as objects that are read as MindSpore's data sets are. Each new
        iterator over the rows to train on is a new epoch.

    Raises:
        DataParallelError: If something else is given, ranks hold different models or rows, or a setting is for a
            Trainer.

    Examples:
        >>> model, optimizer, rows, held = dp.prepare(model, optimizer, rows, held)
        >>> gradients_of = value_and_grad(lambda batch: model(**batch).loss, tuple(model.parameters()))
        >>> for batch in rows.create_dict_iterator():
        ...     loss = gradients_of(batch)
        ...     optimizer.step()
        ...     optimizer.zero_grad()
    """
    config, collective = settings["config"], current()
    model, optimizer = _only(objects, _is_model, "model"), _only(objects, _is_optimizer, "optimizer")
    dtype = _dtype_of(mixed_precision)
    _require_settings(config)
    for loop in [loop for loop in loops if loop.door.optimizer is optimizer or loop.door.model is model]:
        loop.close()
        loops.remove(loop)
    known = _is_model, _is_optimizer, _is_rows, _is_scheduler
    unknown = [thing for thing in objects if not any(is_one(thing) for is_one in known)]
    if unknown:
        raise DataParallelError(
            "dp.prepare got a {type}: give it a model and an optimizer of MindNLP, batched data sets of MindSpore "
            "(mindspore.dataset.GeneratorDataset(...).batch(n)), and a learning rate scheduler.",
            type=type(unknown[0]).__name__,
        )
    asked = [thing.dataset_size for thing in objects if _is_rows(thing) and getattr(thing, "dataset_size", None)][:1]
    loop = Loop(model, optimizer, collective, config, dtype)
    prepared = []
    for thing in objects:
        if _is_rows(thing):
            if loop.rows is None:
                thing = loop.rows = _training_rows(thing, loop, collective)
            else:
                thing = _held_rows(thing, loop, collective)
        elif _is_scheduler(thing):
            loop.follow(thing)
        prepared.append(thing)
    if loop.scheduler is not None and loop.rows is not None and asked:
        _say_how_many_batches(asked[0], loop.rows, collective)
    for other in loops:
        other.num_steps_before = other.door.num_steps
    loops.append(loop)
    return tuple(prepared)


@contextmanager
def no_sync() -> Iterator[None]:
    """Gradients within are not averaged: they accumulate on each rank, and travel with the next ones outside.

    Use it for all batches of an optimizer step but the last. Without it accumulation is right, too, but sends more.
    Gradients that ``attach_grads=False`` returns accumulate nowhere: they are averaged within, too.

    Examples:
        >>> with nullcontext() if is_last_of_step else dp.no_sync():
        ...     loss = gradients_of(batch)
    """
    with ExitStack() as stack:
        for loop in loops:
            stack.enter_context(replaced(loop.door.clock, "is_syncing", False))
        yield


def should_stop() -> bool:
    """Whether a signal of the batch system has asked for the end, the same on all ranks after each optimizer step.

    From its first call on, SIGTERM, SIGUSR1 and SIGUSR2 are noted; a second one ends the process. Then save, and leave
    the loop: ``dp.save_state`` ends the job with the signal's status.

    Examples:
        >>> if dp.should_stop():
        ...     dp.save_state("state")
    """
    if not loops:
        return False
    door = loops[-1].door
    if door.preemption is None:
        door.preemption = Preemption()
        door.preemption.begin()
    return door.preemption.agreed is not None


def latest_loop() -> Loop:
    """The loop that ``prepare`` has made last.

    Raises:
        DataParallelError: If there is none, or others have trained since.
    """
    if not loops:
        raise DataParallelError("There is no state yet: call dp.prepare(model, optimizer, rows) first.")
    *older, newest = loops
    if any(loop.door.num_steps > loop.num_steps_before for loop in older):
        raise DataParallelError(
            "dp.save_state saves the model and the optimizer that dp.prepare got last, but another optimizer has "
            "stepped since: save each model by its save_pretrained or mindspore.save_checkpoint, on rank 0."
        )
    return newest


def _say_how_many_batches(asked, rows, collective):
    """A schedule is as long as the script has said, perhaps by the length of rows that were yet to be dealt out."""
    own = rows.get_dataset_size()
    if collective.rank == 0 and own and own != asked:
        logger.warning(
            tr(
                "The script asked for the length of the rows before dp.prepare: {asked} batches, of which each rank "
                "reads {own}. If the scheduler uses that length, it is {ranks} times too long: make the scheduler "
                "from len(rows) of what dp.prepare returns.",
                asked=asked,
                own=own,
                ranks=collective.world_size,
            )
        )


def _ids(parameters):
    return set(map(id, parameters))


def _training_rows(dataset, loop, collective):
    require_packed_rows_read(loop.door.model, dataset)
    seed = loop.door.seed
    if loop.config.dispatch_batches:
        share = dispatch_training_rows(dataset, collective, {}, seed)
    else:
        share = shard_training_rows(dataset, collective, {}, seed)
    loop.step.compare_rows(share)
    return TrainingRows(share, loop.step.announcements.read, loop.step.check_replicas)


def _held_rows(dataset, loop, collective):
    share = shard_for_evaluation(dataset, collective.world_size, collective.rank, loop.door.seed)
    require_same_rows(Message("The data set to evaluate"), dataset, collective, share.num_rows)
    return HeldRows(share, dataset, collective, lambda: loop.step.check_replicas(anew=True))


def _only(objects, is_one, what):
    found = [thing for thing in objects if is_one(thing)]
    if len(found) != 1:
        raise DataParallelError(
            "dp.prepare got {number} objects that are a MindNLP {what}: give it one model and the optimizer that steps "
            "it, with a parameter group for each learning rate. For a second model with an optimizer of its own call "
            "it again.",
            number=len(found),
            what=what,
        )
    return found[0]


def _dtype_of(mixed_precision):
    if mixed_precision not in DTYPES:
        raise DataParallelError(
            "mixed_precision={value!r} is not known: choose one of {choices}.",
            value=mixed_precision,
            choices=", ".join(DTYPES),
        )
    if mixed_precision == "bf16" and not can_compute_in(mindspore.bfloat16):
        raise DataParallelError(
            "mixed_precision='bf16': MindSpore has no operators for bfloat16 on CPU. Choose 'fp16', or leave it out."
        )
    return DTYPES[mixed_precision]


def _require_settings(config):
    for name, is_set in (
        ("async_save", config.async_save),
        ("profile", config.profile),
        ("elastic_determinism", config.elastic_determinism),
        ("zero_stage", config.zero_stage >= 2),
    ):
        if is_set:
            raise DataParallelError(
                "{name}={value!r} is for a Trainer: leave it out if you call dp.prepare. In a loop of your own use "
                "dp.save_state, and zero_stage 0 or 1.",
                name=name,
                value=getattr(config, name),
            )


def _is_model(thing):
    return all(hasattr(thing, name) for name in ("named_parameters", "named_buffers", "state_dict"))


def _is_optimizer(thing):
    return hasattr(thing, "param_groups") and hasattr(thing, "step")


def _is_rows(thing):
    return hasattr(thing, "create_dict_iterator")


def _is_scheduler(thing):
    return hasattr(thing, "optimizer") and hasattr(thing, "step") and not _is_optimizer(thing)
