"""One step, as the data flows: count, weigh, scale, forward, arm, backward, finish, clip."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.reducer import MAX_HELD, Pass
from mindnlp_dp_plugin.ddp.replicas import SharedBuffers, check_buffers, digest, make_replicas
from mindnlp_dp_plugin.distributed.gradients import computed
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.parameters import parameters_outside, taken_from
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step import rng
from mindnlp_dp_plugin.step.across_ranks import InForward, look_across_ranks, require_normalised_once
from mindnlp_dp_plugin.step.announcements import Announcements
from mindnlp_dp_plugin.step.auto_weights import AutoWeights
from mindnlp_dp_plugin.step.clipping import clip_by_buckets
from mindnlp_dp_plugin.step.cut_off import CutOff
from mindnlp_dp_plugin.step.elastic import micro_batches_of
from mindnlp_dp_plugin.step.labels import has_spans, many_labels_of
from mindnlp_dp_plugin.step.ordered_weights import Counted, OrderedWeights
from mindnlp_dp_plugin.step.own_rows import OwnRows
from mindnlp_dp_plugin.step.precision import Precision
from mindnlp_dp_plugin.step.pynative import end_recording
from mindnlp_dp_plugin.step.read_check import ReadCheck
from mindnlp_dp_plugin.step.replica_check import ReplicaCheck
from mindnlp_dp_plugin.step.same_data import require_same_labels
from mindnlp_dp_plugin.step.sharded_states import shard_states, share_parameters, what_is_shared_out
from mindnlp_dp_plugin.step.stepped import SteppedParameters
from mindnlp_dp_plugin.step.weights import EqualWeights, WeightsOfTheLoop

NO_GATHERING = Message(
    "dp.all_gather and dp.global_mean within a step cannot be used with elastic_determinism: the weights of losses and "
    "of gradients would not agree. Leave the setting out."
)


class Step:
    """The step of a loop. Making it makes the replicas equal; all ranks must, right before the loop.

    A micro-step is one batch of the loop, within ``micro_step``; its forward and backward are within ``training_step``.
    The parameters' hooks are live from the end of that forward to the end of that backward: gradients taken elsewhere,
    in the loss or by other code of the user, fill no bucket.

    User code between the two (``Door.may_call_backward_again``) may read gradients and call backward again, as FGM, PGD
    and SAM do. Then gradients are averaged after each backward, so it sees what it would see in one process.

    It remembers what one of its methods finds for the next, such as the factor of the loss: user code runs in between,
    and MindNLP's methods pass nothing on. Its ``__init__`` is long because each part needs those made before it.

    Args:
        door: The loop.
        collective: The ranks that train together.
        config: The settings.
        patches: Restores what is replaced in MindNLP, and the optimizer's ``step``.
        carrier: The same ranks, for gradients.
        on_phase: Is called with the name of each phase as it begins.

    Raises:
        DataParallelError: If the ranks hold different models or labels, or a setting does not suit the loop.

    Attributes:
        stepped: The parameters that the optimizer steps and the reducer averages.
        reducer: Averages gradients.
        shared: The parameters, if they are shared out; otherwise None.
        shared_out: What of the training a rank keeps a part of, in a sentence; None if it keeps everything.
        precision: What forward computes in, and the scale of the loss.
        optimizer_steps: What is done around each ``optimizer.step``.
        announcements: What ranks tell each other of the batches that follow.
        micro_batches: Those of a step, if its sums follow their tree; otherwise None.
        check_replicas: Compares the ranks' parameters when called.
        is_forward_due: Whether the next ``forward`` is that of the batch.
    """

    def __init__(
        self,
        door: Door,
        collective: Collective,
        config: DataParallelConfig,
        patches: Patches,
        carrier: Collective | None = None,
        on_phase: Callable[[str], None] = lambda name: None,
    ):
        self._door, self._collective, self._on_phase = door, collective, on_phase
        require_same_labels(door.model, collective)
        check_buffers(door.model, collective)
        self.micro_batches = micro_batches_of(door.accumulation, collective, config)
        if config.zero_stage >= 2 and self._may_call_backward_again:
            raise DataParallelError(
                "zero_stage={stage} with an overridden training_step ({trainer}): it may read gradients, of which a "
                "rank keeps only its part. Use zero_stage=1, or override compute_loss instead.",
                stage=config.zero_stage,
                trainer=door.name,
            )
        self.shared = share_parameters(door, collective, config, patches)
        others = parameters_outside(door.model, door.optimizer).items()
        make_replicas(door.model, collective, others, self._is_shared_out)
        self._buffers = SharedBuffers(door.model, collective, may_change=not self.micro_batches)
        self.optimizer_steps = WatchedSteps(patches)
        self.shared_out = what_is_shared_out(collective, config, self.shared)
        slices = shard_states(
            door, collective, config, self.optimizer_steps, lambda: self.reducer.averaged.kept, self.shared
        )
        self.stepped = SteppedParameters(door, collective, self._is_shared_out)
        parameters = list(self.stepped.named.values())
        self.reducer = GradientReducer(
            parameters,
            carrier or collective,
            config.bucket_cap_mb,
            config.comm_dtype,
            slices,
            self.micro_batches,
            max_held=1 if self.shared else MAX_HELD,
        )
        self.stepped.follow = self.reducer.follow
        self.precision = Precision(door.dtype, config, patches)
        self._weights = self._weigh(config.average_over == "auto")
        self.announcements = Announcements(self._weights, self.stepped, door.clock)
        self._factor = 1  # of the loss
        self._is_weighed = self.is_forward_due = False
        self._batch, self._in_forward = InForward(counts=True), None
        self._counts = self._has_gradients = True
        self._guard(config, patches)
        clip_by_buckets(self.reducer, door.utils, patches)
        if door.functional and collective.world_size > 1 and self._weights.adds_up:
            require_normalised_once(door.model)
            own_rows = OwnRows() if config.average_over == "auto" else None
            look_across_ranks(door.functional, door.model, own_rows, lambda: self._in_forward, patches)

    @contextmanager
    def micro_step(self) -> Iterator[None]:
        """A context for one batch of the loop, and whatever user code does with it. All ranks must enter it."""
        clock = self._door.clock
        rng.seed_operators(self._door.seed, *self._place_in_streams())
        if clock.begins_optimizer_step:
            self.precision.begin_step()
        self.announcements.ask()
        self.reducer.release()
        self._weights.begin_micro_step()
        self._is_weighed = False
        self._on_phase("forward")
        if self.shared:
            self.shared.require_untouched()
        yield
        if self.shared:
            self.shared.require_untouched()
        self.stepped.agree()
        self._weights.require(self._is_weighed)
        self.precision.require(self._is_weighed)
        if clock.optimizer_steps_next:
            self._average_what_is_left()
            self.precision.unscale(self.reducer)
            self.optimizer_steps.watch(self._door.optimizer)
        self._buffers.broadcast()
        clock.end_micro_step()

    def training_step(self, batch: Any, forward_and_backward: Callable[[], Any]):
        """Forward and backward of a batch, and its gradients averaged if they are due. All ranks must call it.

        Args:
            batch: The columns, by name.
            forward_and_backward: Computes the loss by ``forward``, calls ``finish`` after backward, and returns the
                loss over the accumulation.

        Returns:
            What the loop is to add to its sum of losses.
        """
        self.reducer.release()
        self._factor = 1
        self._counts = self._weights.weigh(batch)
        by_labels = self._weights.looks_ahead or self._door.weighs_losses
        labels = many_labels_of(batch, self._door.labels) if by_labels else None
        self._batch = InForward(self._counts, batch, labels, self._door.labels is not None and has_spans(batch))
        loss = self._computed(forward_and_backward)
        if not self._counts:  # the mean over a batch whose count is 0 is 0 / 0
            return self._weights.recorded(None)
        return self._weights.recorded(loss if self._factor == 1 else loss / self._factor)

    def recorded(self, loss: Any) -> Any:
        """What the loop is to add to its sum of losses, where user code has computed one beside ``training_step``."""
        return loss if self._is_weighed else self._weights.recorded(loss)

    def forward(self, compute_loss: Callable[[], Any]):
        """The loss that backward is to start from. Hooks are live when it is computed.

        Only the first within a ``training_step`` is the loop's own; others are the user's, and left alone.
        """
        if not self.is_forward_due:
            return compute_loss()
        self.is_forward_due = False
        self._in_forward = self._batch
        try:
            with self.precision.running():
                loss = compute_loss()
        finally:
            self._in_forward = None
        if self.shared:
            self.shared.end_forward(loss if self._counts else None)
        if self._counts:
            self._weights.saw(loss)
        self._on_phase("wait for ranks")
        # A mean over nothing is no number; another loss counts nothing itself, and may hold rows that others compare.
        self._has_gradients = self._counts or math.isfinite(loss.astype(mindspore.float32).item())
        self._arm()
        self._factor = self._weights.factor() * self.precision.scale if self._counts else 0
        self._is_weighed = True
        self._on_phase("backward")
        return loss if self._factor == 1 or not self._has_gradients else loss * self._factor

    def finish(self) -> None:
        """Behind backward: average the gradients, if they are due. All ranks must call it."""
        self._on_phase("wait for gradients")
        self._weights.require(is_weighed=not self.is_forward_due)
        self.is_forward_due = False
        if self._fills_buckets:
            self.stepped.agree()
            self.reducer.finish()
        self._on_phase("clip" if self._door.clock.optimizer_steps_next else "trainer")

    def in_step(self, batches: Iterable) -> Iterator:
        """This rank's batches; behind them it gives other ranks what they need to compute theirs.

        All ranks must use it up.
        """
        return self.shared.in_step(batches) if self.shared else iter(batches)

    def compare_rows(self, dataset: ShardedDataset) -> None:
        """From now on, compare what the ranks have read of ``dataset``. All ranks must call it."""
        self.check_replicas.also.append(ReadCheck(dataset, self._collective, self.optimizer_steps))

    def close(self) -> None:
        """Take the hooks out of the parameters, and end what a forward that raised has begun."""
        self.reducer.close()
        end_recording()

    @property
    def waited_seconds(self) -> float:
        """Seconds this rank has waited for others while averaging so far."""
        return self.reducer.waited_seconds + self.stepped.waited_seconds

    @property
    def averaged_waiting(self) -> bool:
        """Whether gradients that the last ``finish`` has averaged are attached, so that others would add to them."""
        return any(p.grad is not None and self.reducer.averaged.has(p) for p in self.stepped.named.values())

    @property
    def latest(self) -> Counted:
        """The last micro-batch of this rank, where sums follow the tree of micro-batches."""
        return self._weights.latest

    @property
    def _may_call_backward_again(self):
        return self._door.may_call_backward_again and not self.micro_batches

    @property
    def _averages_now(self):
        return self._may_call_backward_again or self._door.clock.optimizer_steps_next

    @property
    def _fills_buckets(self):
        return bool(self.micro_batches) or self._averages_now

    def _computed(self, forward_and_backward):
        """The loss of a batch and its gradients; of one that counts nothing, what other ranks need of it alone."""
        refusal = None if self._weights.adds_up else NO_GATHERING
        accumulated = [] if self._counts or self._fills_buckets else taken_from(self.stepped.named.values())
        self.is_forward_due = True
        try:
            with computed.being(is_repeated=computed.is_repeated or self._weights.is_repeated, refusal=refusal):
                return forward_and_backward()
        finally:
            self.is_forward_due = False
            for parameter, before in accumulated:
                new = parameter.grad if self._has_gradients else None
                parameter.grad = new if before is None else before if new is None else before + new

    def _is_shared_out(self, parameter):
        return bool(self.shared) and self.shared.holds(parameter)

    def _arm(self):
        self.stepped.agree()
        if self._fills_buckets:
            due = Pass(self._weights.factor_of_rank(), self._averages_now, self._has_gradients)
            self.reducer.prepare(due)

    def _weigh(self, by_counts):
        if self.micro_batches:
            return OrderedWeights(self._door, self._collective, by_counts, self.micro_batches)
        if not by_counts or self._collective.world_size == 1:
            return EqualWeights(self._door, self._collective)
        return (WeightsOfTheLoop if self._door.weighs_losses else AutoWeights)(self._door, self._collective)

    def _place_in_streams(self):
        """Whose operators draw, and in which step: this rank's, or the micro-batch's, whatever rank computes it."""
        micro_step = self._door.clock.micro_steps
        if self.micro_batches:
            return self.micro_batches.number(micro_step), self.micro_batches.step(micro_step)
        return self._collective.rank, micro_step

    def _average_what_is_left(self):
        """Before an optimizer step, average again if user code changed or added gradients."""
        if not self._door.may_replace_gradients:
            return
        self.stepped.agree()
        is_averaged = all(map(self.reducer.averaged.has, self.stepped.named.values()))
        replaced = [0 if gradient is None else digest(gradient) for gradient in self.reducer.averaged.replaced()]
        everyone = self._collective.all_gather_object((is_averaged, replaced), Message("gradients that were replaced"))
        if not is_averaged or any(theirs != everyone[0] for theirs in everyone):
            self.reducer.finish(self._weights.share)

    def _guard(self, config, patches):
        """What is done around each ``optimizer.step``."""
        steps, door = self.optimizer_steps, self._door
        steps.skips = self.precision.skips_step
        steps.before.append(lambda: self.stepped.require_averaged(self.reducer))
        steps.before.append(lambda: self._on_phase("optimizer"))
        steps.after.append(self.precision.end_step)
        CutOff(door, steps, patches)
        self.check_replicas = ReplicaCheck(
            door, self._collective, config.check_replicas_every, steps, self._is_shared_out
        )
        steps.after.append(lambda: self._on_phase("trainer"))
        steps.watch(door.optimizer)
