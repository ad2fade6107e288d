"""Average the gradients over all ranks, bucket by bucket, while backward is still running.

The scheme is that of torch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating
Data Parallel Training", VLDB 2020): parameters are grouped into buckets from the last to the first, roughly as
backward meets them, a hook on each parameter fills its bucket, and a full bucket starts its all-reduce. Buckets start
in index order on every rank, whatever order gradients appear in, so all ranks always start the same collective.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.averaged import AveragedGradients
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket, HostBucket
from mindnlp_dp_plugin.ddp.filling import Layout
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.errors import DataParallelError

MAX_HELD = 4  # buckets of a few MB


@dataclass(frozen=True)
class Pass:
    """What becomes of the gradients of a backward.

    Attributes:
        factor: For this rank's gradients, before they are summed; None for 1/world_size, which makes the sum a mean.
        averages: Whether they are averaged behind it; if not, with ``micro_batches``, further micro-steps follow.
        counts: Whether they count; if not, 0 takes the place of each.
    """

    factor: float | None = None
    averages: bool = True
    counts: bool = True


MEAN = Pass()


class GradientReducer:
    """Buckets, hooks and the order between them.

    In a micro-step before an optimizer step: ``prepare()``, one backward, ``finish()``. In micro-steps that only
    accumulate, neither: ``.grad`` then grows on this rank alone. Without ``prepare()``, ``finish()`` does all the work
    after backward, with the same result. Backward passes outside ``prepare()`` and ``finish()`` are ignored.

    With ``micro_batches``, all micro-steps are within ``prepare()`` and ``finish()``, and nothing accumulates in
    ``.grad``: buckets hold the sums.

    Args:
        parameters: The parameters the optimizer steps, in the same order on all ranks.
        collective: The ranks to average over.
        bucket_cap_mb: Size in MB at which a bucket is full; None for the engine's default, 0 for one bucket per
            parameter.
        comm_dtype: The dtype in which float32 is sent: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        slices: Returns the buckets: the ``parameters`` of each, and the extents that each rank is to keep, its
            ``parts``; the rest is let go as soon as a bucket is averaged, and ``.grad`` is None afterwards. Called
            before each backward, on all ranks; the same list means that nothing has changed. None to keep everything in
            ``.grad``.
        micro_batches: Those of a step, if gradients are summed in the order of their tree; None for the engine's.
        max_held: How many full buckets may hold memory at a time while a rank keeps its part alone.

    Attributes:
        averaged: The gradients that ``finish`` has averaged since ``release``.
        without: Parameters of which this rank had no gradient when ``finish`` was called last.
        waited_seconds: Seconds ``finish`` has waited for all-reduces so far. With HCCL, whose waits only queue work on
            the device, this is too small.
    """

    def __init__(
        self,
        parameters,
        collective: Collective,
        bucket_cap_mb: float | None = None,
        comm_dtype: str = "float32",
        slices: Callable[[], Sequence] | None = None,
        micro_batches: MicroBatches | None = None,
        max_held: int = MAX_HELD,
    ):
        self._micro_batches, self._max_held = micro_batches, max_held
        self._ask_slices, self._slices = slices, None
        self._parameters, self._hooks = [], {}
        self._collective, self._comm_dtype = collective, comm_dtype
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        self._lay_out([])
        self.waited_seconds = 0.0
        self.without = []
        self._pass: Pass | None = None
        self.follow(parameters)

    @property
    def num_buckets(self) -> int:
        """Number of all-reduces in a step that averages."""
        return len(self._layout.buckets)

    def follow(self, parameters) -> None:
        """Average the gradients of these parameters from now on. Call it between two micro-steps.

        Args:
            parameters: The parameters the optimizer steps, in the same order on all ranks.
        """
        self._parameters = list(parameters)
        known, self._hooks = self._hooks, {}
        for index, parameter in enumerate(self._parameters):
            if id(parameter) in known:
                known.pop(id(parameter)).remove()
            # MindSpore 2.7 takes functions alone for hooks, no partial.
            hook = parameter.register_hook(lambda gradient, index=index: self._on_gradient(index, gradient))
            self._hooks[id(parameter)] = hook
        for hook in known.values():
            hook.remove()
        self.release()
        self._slices = None
        if not self.keeps_part:  # what is kept is laid out when backward begins
            self._lay_out(plan_buckets(self._parameters[::-1], self._cap_mb))

    def release(self) -> None:
        """Release the averaged gradients, which hold the buckets' memory, before forward needs it."""
        self.averaged = AveragedGradients(self._parameters, self._collective, self.keeps_part)
        for bucket in self._layout.buckets:
            bucket.release()

    def prepare(self, due: Pass = MEAN) -> None:
        """From now until ``finish()``, the hooks copy gradients into their buckets during backward.

        Args:
            due: What becomes of them.
        """
        self.release()
        self._begin()
        self._pass = due

    def finish(self, share: float | None = None) -> None:
        """Set every parameter's ``.grad`` to the mean over all ranks. All ranks must call it, after backward.

        Args:
            share: Without ``prepare()``, the factor for this rank's gradients; None for 1/world_size.
        """
        due, self._pass = self._pass, None
        if due is None:
            if self._micro_batches:
                raise DataParallelError(
                    "elastic_determinism: the script attached gradients or computed the loss outside the Trainer's "
                    "own training_step and compute_loss. A step sums the gradients of its micro-batches alone: let "
                    "training_step compute them, or train without elastic_determinism."
                )
            self.release()  # what was handed out stays as it is
            self._begin()
            due = Pass(share)
        absent = self._filling.absent()
        self.without = [self._parameters[index] for index in absent if self._parameters[index].grad is None]
        for index in absent:
            self._fill(due, index, *self._left_by_backward(index))
        self._start_full_buckets(due)
        while due.averages and self._filling.num_taken < self.num_buckets:
            self._take_next(due)
        if self.keeps_part or not due.averages:
            for parameter in self._parameters:
                parameter.grad = None
        self._filling = self._layout.filling()

    @property
    def keeps_part(self) -> bool:
        """Whether this rank keeps its part of the gradients alone, and no ``.grad``."""
        return self._ask_slices is not None

    def close(self) -> None:
        """Remove the hooks from the parameters."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks = {}

    def _begin(self):
        if not self.keeps_part:
            return
        slices = self._ask_slices()
        if slices is self._slices:
            return
        if {id(p) for bucket in slices for p in bucket.parameters} != set(map(id, self._parameters)):
            raise DataParallelError(
                "zero_stage=2 and 3: within a step the optimizer got parameters that are not averaged. Give it new "
                "parameters in on_step_end, on_step_begin or on_epoch_begin."
            )
        self._slices = slices
        self._lay_out([bucket.parameters for bucket in slices])

    def _take_next(self, due):
        """Wait for the first bucket that was not taken, and hand out its gradients, or keep this rank's part."""
        number = self._filling.num_taken
        self._filling.num_taken += 1
        bucket = self._layout.buckets[number]
        began = time.perf_counter()
        gradients = bucket.gradients()
        self.waited_seconds += time.perf_counter() - began
        parameters = [self._parameters[index] for index in self._layout.plan[number]]
        if self.keeps_part:
            extents = self._slices[number].parts[self._collective.rank]
            self.averaged.keep(bucket, parameters, gradients, extents)
        else:
            self.averaged.take(bucket, parameters, gradients)

    def _on_gradient(self, index, gradient):
        due = self._pass
        if due is None:
            return
        parameter = self._parameters[index]
        if not due.counts:
            gradient = mindspore.ops.zeros_like(gradient)
        in_bucket = self._fill(due, index, gradient, parameter.grad)
        parameter.grad = None  # it is in the bucket now, so the gradient attached after backward adds to nothing
        self._start_full_buckets(due)
        if self._filling.running is not None:
            self._filling.running.progress()
        # Backward holds what a hook returns until it ends: in the place of a gradient that is let go, one number.
        return mindspore.ops.zeros(1, gradient.dtype) if self.keeps_part else in_bucket

    def _left_by_backward(self, index):
        """The gradient of a parameter whose hook did not fire: the attached one, or zeros if it was unused."""
        gradient = self._parameters[index].grad
        return (mindspore.ops.zeros_like(self._parameters[index]) if gradient is None else gradient), None

    def _fill(self, due, index, gradient, accumulated):
        bucket, slot = self._layout.place[index]
        if self._filling.has(index):
            raise DataParallelError(
                "Two backward passes for one average: parameter {index} of {count}, of shape {shape}, has got a "
                "second gradient before the first was averaged. Compute gradients of your own inside compute_loss, "
                "or in training_step before or after super()'s.",
                index=index,
                count=len(self._parameters),
                shape=tuple(self._parameters[index].shape),
            )
        factor = 1 / self._collective.world_size if due.factor is None else due.factor
        in_bucket = self._layout.buckets[bucket].put(slot, gradient, accumulated, factor)
        self._filling.note(index)
        return in_bucket

    def _start_full_buckets(self, due):
        filling = self._filling
        while (bucket := filling.next_full()) is not None:
            if not due.averages:
                bucket.hold()
                continue
            filling.running = bucket.start()
            while self.keeps_part and filling.num_taken < filling.num_started - self._max_held:
                self._take_next(due)

    def _lay_out(self, groups):
        bucket_type = HostBucket if self._collective.uses_numpy else DeviceBucket
        parts = [bucket.parts for bucket in self._slices] if self._slices else [None] * len(groups)
        options = self._collective, self._comm_dtype
        buckets = [
            bucket_type(group, *options, parts_of, self._micro_batches) for group, parts_of in zip(groups, parts)
        ]
        places = {id(parameter): index for index, parameter in enumerate(self._parameters)}
        self._layout = Layout([[places[id(parameter)] for parameter in group] for group in groups], buckets)
        self._filling = self._layout.filling()
