"""Average the gradients over all ranks, bucket by bucket, while backward is still running.

The scheme is that of torch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating
Data Parallel Training", VLDB 2020): parameters are grouped into buckets in the order in which their gradients
appear, a hook on each parameter fills its bucket, and a full bucket starts its all-reduce. Buckets start in index
order on every rank, whatever order gradients appear in, so all ranks always start the same collective.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.bucket import DeviceBucket, HostBucket, is_on_cpu, scale_each
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.ddp.parts import SlicedParameters
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message

MAX_HELD = 4  # buckets of a few MB


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
        slices: Returns the buckets and what each rank is to keep of them, given the parameters in the order of their
            gradients; the rest is let go as soon as a bucket is averaged, and ``.grad`` is None afterwards. Called
            before each backward, on all ranks; the same list means that nothing has changed. None to keep everything in
            ``.grad``.
        micro_batches: Those of a step, if gradients are summed in the order of their tree; None for the engine's.
        max_held: How many full buckets may hold memory at a time while a rank keeps its part alone.

    Attributes:
        kept: The runs of gradients that were kept, by the identity of their parameter.
        order: The order of the parameters in the buckets; None until the first step has shown it.
        waited_seconds: Seconds ``finish`` has waited for all-reduces so far. With HCCL, whose waits only queue work on
            the device, this is too small.
    """

    def __init__(
        self,
        parameters,
        collective: Collective,
        bucket_cap_mb: float | None = None,
        comm_dtype: str = "float32",
        slices: Callable[[list], Sequence[SlicedParameters]] | None = None,
        micro_batches: MicroBatches | None = None,
        max_held: int = MAX_HELD,
    ):
        self._micro_batches, self._max_held = micro_batches, max_held
        self._ask_slices, self._slices = slices, None
        self.kept = {}
        self._hooks = {}
        self._plan, self._buckets = [], []
        self._collective = collective
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        self._comm_dtype = comm_dtype
        self._averaged = []  # for each bucket, the gradients that finish() set; empty once they are clipped
        self._norm = None  # of them, once unscale() has computed it
        self._handed_out = {}  # the same by parameter, until release()
        self._seen = []
        self._live, self._averages, self._counts = False, True, True
        self.waited_seconds = 0.0
        self._ask_factor = None
        self.follow(parameters)

    @property
    def num_buckets(self) -> int:
        """Number of all-reduces in a step that averages."""
        return len(self._buckets)

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
        self._follow_order(self._expected_order())
        self.order = None

    def take_order(self, order: list[int] | None) -> None:
        """Lay the buckets out at once as another reducer did, if that had as many parameters. Call it before a step.

        Some engines sum three and more ranks in an order that depends on the place in the message, so a run that is
        resumed needs the same places from its first step on.

        Args:
            order: Its ``order``.
        """
        if order is not None and sorted(order) == list(range(len(self._parameters))):
            self._follow_order(order)

    def release(self) -> None:
        """Release the averaged gradients, which hold the buckets' memory, before forward needs it."""
        self._averaged, self._norm = [], None
        self._handed_out = {}
        self.kept = {}
        for bucket in self._buckets:
            bucket.release()

    def prepare(
        self,
        factor: Callable[[], float] | None = None,
        averages: bool = True,
        of_sum: float | None = None,
        counts: bool = True,
    ) -> None:
        """From now until ``finish()``, the hooks copy gradients into their buckets during backward.

        Args:
            factor: Returns the factor for this rank's gradients before they are summed; called for the first gradient.
                None for 1/world_size, which makes the sum a mean.
            averages: Whether ``finish()`` is to average; if not, with ``micro_batches``, further micro-steps follow.
            of_sum: A further factor, for the sum; None for 1.
            counts: Whether gradients of this backward count; if not, 0 takes the place of each.
        """
        self.release()
        self._begin()
        self._live, self._averages, self._counts = True, averages, counts
        self._ask_factor, self._of_sum = factor, of_sum

    def finish(self, share: float | None = None) -> None:
        """Set every parameter's ``.grad`` to the mean over all ranks. All ranks must call it, after backward.

        Args:
            share: Without ``prepare()``, the factor for this rank's gradients; None for 1/world_size.
        """
        if not self._live:
            if self._micro_batches:
                raise DataParallelError(
                    "elastic_determinism: the script attached gradients or computed the loss outside the Trainer's "
                    "own training_step and compute_loss. A step sums the gradients of its micro-batches alone: let "
                    "training_step compute them, or train without elastic_determinism."
                )
            self.release()  # what was handed out stays as it is
            self._begin()
            self._averages, self._of_sum = True, None
            self._ask_factor = None if share is None else lambda: share
        self._live = False
        for indices, num_missing in zip(self._plan, list(self._missing)):
            for index in indices if num_missing else ():
                if not self._filled[index]:
                    self._fill(index, *self._left_by_backward(index))
        self._start_full_buckets()
        while self._averages and self._num_taken < len(self._buckets):
            self._take_next()
        if self.keeps_part or not self._averages:
            for parameter in self._parameters:
                parameter.grad = None
        if self.order is None and self._averages:
            self._follow_order(self._collective.all_gather_object(self._seen, Message("the order of gradients"))[0])
        self._reset()
        self._ask_factor = None

    def has_averaged(self, parameter) -> bool:
        """Whether ``finish`` has averaged the gradient of this parameter since ``release``."""
        return id(parameter) in self._handed_out

    def replaced_gradients(self) -> list[mindspore.Tensor | None]:
        """Gradients that were attached since ``finish`` in place of the averaged ones."""
        return [p.grad for p in self._parameters if p.grad is not self._handed_out.get(id(p))]

    @property
    def keeps_part(self) -> bool:
        """Whether this rank keeps its part of the gradients alone, and no ``.grad``."""
        return self._ask_slices is not None

    def has_just_averaged(self, gradients) -> bool:
        """Whether these are all the gradients ``finish`` set, neither replaced nor clipped since."""
        if self.keeps_part:
            return bool(self._averaged) and not gradients
        averaged = {id(gradient) for _, of_bucket in self._averaged for gradient in of_bucket}
        return bool(averaged) and averaged == {id(gradient) for gradient in gradients}

    def unscale(self, scale: float) -> bool:
        """Divide what ``finish`` left, and what replaced it, by the factor that the loss was multiplied by.

        Args:
            scale: The factor.

        Returns:
            Whether all gradients are finite: the same on all ranks, as their averages are.
        """
        replaced = [gradient for gradient in self.replaced_gradients() if gradient is not None]
        self._norm = self._norm_of_buckets() / scale
        norms = [self._norm, *(gradient.astype(mindspore.float32).norm() for gradient in replaced)]
        factor = mindspore.tensor(1 / scale, mindspore.float32)
        for bucket, gradients in self._averaged:
            bucket.scale(gradients, factor)
        scale_each(replaced, factor)
        return all(math.isfinite(norm.item()) for norm in norms)

    def clip_grad_norm(self, max_norm: float) -> mindspore.Tensor:
        """Scale the averaged gradients so that their Euclidean norm is at most ``max_norm``.

        The rule is that of torch's ``clip_grad_norm_``: the norm is that of all gradients as one vector. It is computed
        bucket by bucket instead of parameter by parameter.

        Returns:
            The norm before clipping.
        """
        norm = self._norm_of_buckets() if self._norm is None else self._norm
        factor = mindspore.ops.clamp(max_norm / (norm + 1e-6), max=1.0)
        for bucket, gradients in self._averaged:
            bucket.scale(gradients, factor)
        self._averaged = []
        return norm

    def _norm_of_buckets(self):
        squares = [square for bucket, _ in self._averaged for square in bucket.squares()]
        if is_on_cpu():
            if self.keeps_part:
                of_ranks = self._collective.all_gather_object(squares, Message("the norm of gradients"))
                squares = itertools.chain(*of_ranks)
            return mindspore.tensor(math.fsum(squares) ** 0.5)
        total = sum(squares, mindspore.ops.zeros(1, mindspore.float32))
        if self.keeps_part:
            self._collective.all_reduce(total).wait()
        return total[0] ** 0.5

    def close(self) -> None:
        """Remove the hooks from the parameters."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks = {}

    def _begin(self):
        if not self.keeps_part:
            return
        places = {id(parameter): index for index, parameter in enumerate(self._parameters)}
        # Laying parts out anew costs memory: it is done where a sum's order may depend on the place in the message.
        may_stay = self.order is None or self._collective.can_reduce_scatter
        order = self._expected_order() if may_stay else self.order
        slices = self._ask_slices([self._parameters[index] for index in order])
        if {id(p) for bucket in slices for p in bucket.parameters} != set(places):
            raise DataParallelError(
                "zero_stage=2 and 3: within a step the optimizer got parameters that are not averaged. Give it new "
                "parameters in on_step_end, on_step_begin or on_epoch_begin."
            )
        if slices is not self._slices:
            self._slices = slices
            self._build_buckets([[places[id(p)] for p in bucket.parameters] for bucket in slices])

    def _take_next(self):
        """Wait for the first bucket that was not taken, and hand out its gradients, or keep this rank's part."""
        number, self._num_taken = self._num_taken, self._num_taken + 1
        bucket = self._buckets[number]
        began = time.perf_counter()
        gradients = bucket.gradients(self._of_sum)
        self.waited_seconds += time.perf_counter() - began
        self._averaged.append((bucket, gradients))
        parameters = [self._parameters[index] for index in self._plan[number]]
        if self.keeps_part:
            extents = self._slices[number].parts[self._collective.rank]
            self.kept |= {id(parameters[own.index]): gradient for own, gradient in zip(extents, gradients)}
            self._handed_out |= {id(parameter): None for parameter in parameters}
            return
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = self._handed_out[id(parameter)] = gradient

    def _on_gradient(self, index, gradient):
        if not self._live:
            return
        parameter = self._parameters[index]
        if not self._counts:
            gradient = mindspore.ops.zeros_like(gradient)
        in_bucket = self._fill(index, gradient, parameter.grad)
        parameter.grad = None  # it is in the bucket now, so the gradient attached after backward adds to nothing
        self._start_full_buckets()
        if self._running is not None:
            self._running.progress()
        # Backward holds what a hook returns until it ends: in the place of a gradient that is let go, one number.
        return mindspore.ops.zeros(1, gradient.dtype) if self.keeps_part else in_bucket

    def _left_by_backward(self, index):
        """The gradient of a parameter whose hook did not fire: the attached one, or zeros if it was unused."""
        gradient = self._parameters[index].grad
        return (mindspore.ops.zeros_like(self._parameters[index]) if gradient is None else gradient), None

    def _fill(self, index, gradient, accumulated):
        bucket_index, slot = self._place[index]
        if self._filled[index]:
            raise DataParallelError(
                "Two backward passes for one average: parameter {index} of {count}, of shape {shape}, has got a second "
                "gradient before the first was averaged. Take gradients of your own inside compute_loss, or in "
                "training_step before or after super()'s.",
                index=index,
                count=len(self._parameters),
                shape=tuple(self._parameters[index].shape),
            )
        if not self._seen:
            self._factor = self._ask_factor() if self._ask_factor else 1 / self._collective.world_size
        in_bucket = self._buckets[bucket_index].put(slot, gradient, accumulated, self._factor)
        self._filled[index] = True
        self._missing[bucket_index] -= 1
        self._seen.append(index)
        return in_bucket

    def _start_full_buckets(self):
        while self._next < len(self._buckets) and self._missing[self._next] == 0:
            bucket = self._buckets[self._next]
            self._next += 1
            if not self._averages:
                bucket.hold()
                continue
            self._running = bucket.start()
            while self.keeps_part and self._num_taken < self._next - self._max_held:
                self._take_next()

    def _expected_order(self):
        """Backward meets the parameters roughly last to first; the first step shows the true order."""
        return range(len(self._parameters) - 1, -1, -1)

    def _follow_order(self, order):
        """Regroup the buckets, once, in the order in which rank 0 saw the gradients."""
        self.order = order
        if not self.keeps_part:  # what is kept is laid out when backward begins
            self._build_buckets(plan_buckets(self._parameters, order, self._cap_mb))

    def _build_buckets(self, plan):
        bucket_type = HostBucket if self._collective.uses_numpy else DeviceBucket
        self._plan = plan
        parts = [bucket.parts for bucket in self._slices] if self._slices else [None] * len(plan)
        self._buckets = [
            bucket_type(
                [self._parameters[i] for i in ids], self._collective, self._comm_dtype, parts_of, self._micro_batches
            )
            for ids, parts_of in zip(plan, parts)
        ]
        self._place = {i: (bucket, slot) for bucket, ids in enumerate(self._plan) for slot, i in enumerate(ids)}
        self._reset()

    def _reset(self):
        self._missing = [len(indices) for indices in self._plan]
        self._filled = [False] * len(self._parameters)
        self._seen = []
        self._next = self._num_taken = 0
        self._running = None
