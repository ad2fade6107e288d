"""The parameters of a model while they are shared out: lent to each module that computes, whole on request."""

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.ddp.replicas import digest, make_equal
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.fully_sharded.buckets import SharedBucket
from mindnlp_dp_plugin.fully_sharded.stand_ins import NotANumber, stand_ins_of
from mindnlp_dp_plugin.fully_sharded.units import units_of, units_of_parameters
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.cut_buckets import SlicedBucket
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.recompute import caching_configs, computed_with, is_recomputed

_shared = WeakKeyDictionary()  # by model


@contextmanager
def gathered_parameters(model: Any) -> Iterator[None]:
    """Within the block all parameters of a model are whole; what it changes in them, on all ranks alike, stays.

    All ranks must enter it, and each then holds the whole model. Without ``zero_stage=3`` nothing is done. DeepSpeed
    calls it ``zero.GatheredParameters``, torch ``summon_full_params``.

    Args:
        model: The model that is being trained.

    Examples:
        >>> with dp.gathered_parameters(model):
        ...     dp.print_rank_0(model.classifier.weight.norm())
    """
    shared = _shared.get(model)
    if shared is None:
        yield
        return
    with shared.whole(takes_values=True):
        yield


class SharedParameters:
    """Shares out what a model's units hold, and lends it to each unit while that computes.

    Parameters that are used by the same units, and are stepped or are not, make a bucket. All ranks must run the units
    in the same order, and equally often. It has many attributes because a parameter is found by its unit, its bucket,
    its name and its stand-in.

    Args:
        model: The model, of the same structure on all ranks; what rank 0 holds is shared out, a bucket at a time.
        stepped: The parameters that an optimizer steps.
        collective: The ranks that share them out.
        bucket_cap_mb: Size in MB of a bucket of parameters that stay whole; None for the engine's default.
        patches: Gives the units their own ``forward`` back.
    """

    def __init__(self, model, stepped: Iterable, collective: Collective, bucket_cap_mb: float | None, patches: Patches):
        self._model, self._collective = model, collective
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        units = units_of(model)
        for unit in units:
            _require_own_forward(unit)
        self._units_of = units_of_parameters(model, units)
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._parameters = [p for p in model.parameters() if id(p) in self._units_of]
        self._named = {self._names[id(parameter)]: parameter for parameter in self._parameters}
        self._stand_ins = stand_ins_of(self._named)
        self._buckets, self._bucket_of, self._stepped = [], {}, None
        self._num_whole = 0  # contexts within which parameters are whole
        self._lent, self._of_forward = [], []  # buckets, in the order in which they were gathered
        self._caching = caching_configs(model)
        self._let_caches(False)
        patches.on_undo(lambda: self._let_caches(True))
        for unit in units:
            patches.replace(unit, "forward", functools.partial(self._forward, unit, unit.forward))
        for name in ("state_dict", "save_pretrained"):
            if hasattr(model, name):
                patches.stand_in(model, functools.partial(self._whole_alone, name), name)
        self._share_out({id(parameter) for parameter in stepped}, makes_equal=True)
        patches.on_undo(self._give_up)
        _shared[model] = self
        patches.on_undo(lambda: _shared.pop(model, None))

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole parameters that are shared out."""
        return sum(bucket.num_bytes for bucket in self._buckets)

    def holds(self, parameter) -> bool:
        """Whether a parameter is shared out."""
        return id(parameter) in self._bucket_of

    def buckets(self, order: list) -> list[SlicedBucket]:
        """The buckets of these parameters, which an optimizer steps. All ranks must call it.

        Args:
            order: The parameters in the order in which backward meets them, or is expected to.
        """
        stepped = {id(parameter) for parameter in order}
        if stepped != self._stepped:
            for bucket in self._buckets:
                bucket.give_back()
            self._share_out(stepped)
        last = {id(parameter): place for place, parameter in enumerate(order)}
        shared = [bucket for bucket in self._buckets if id(bucket.parameters[0]) in stepped]
        shared.sort(key=lambda bucket: max(last[id(parameter)] for parameter in bucket.parameters))
        others = [parameter for parameter in order if not self.holds(parameter)]
        plan = plan_buckets(others, range(len(others)), self._cap_mb)
        return shared + [SlicedBucket([others[index] for index in ids], self._collective) for ids in plan]

    @contextmanager
    def whole(self, keeps: bool = True, takes_values: bool = False) -> Iterator[None]:
        """A context within which parameters are whole. All ranks must enter it.

        Args:
            keeps: Whether they are on this rank; otherwise it only sends others its part.
            takes_values: Whether what is changed within stays.
        """
        if self._num_whole == 0:
            self._gather(keeps)
        self._num_whole += 1
        try:
            yield
        finally:
            self._num_whole -= 1
            if self._num_whole == 0:
                self._let_caches(False)
                if keeps:
                    self._let_go(takes_values)

    def join(self) -> None:
        """Make all parameters whole, and let them be. All ranks must call it."""
        if not self._num_whole:
            self._gather(keeps=True)
        self._num_whole = 1  # for good
        self._buckets, self._bucket_of = [], {}

    def digests(self) -> list:
        """Digests of what is stepped, of all ranks. All ranks must call it."""
        mine = [digest(own.tensor) for bucket in self._buckets for own in bucket.slices]
        mine += [digest(each) for each in self._model.parameters() if not self.holds(each)]
        return self._collective.all_gather_object(mine, Message("digests of parameters"))

    def begin(self) -> None:
        """A batch begins: note from now on what it gathers."""
        self._stand_ins.require_unread()
        self._lent = []

    def end_forward(self, loss: Any = None) -> None:
        """Its forward has ended.

        Args:
            loss: Its loss, where there is one.

        Raises:
            DataParallelError: If code outside of a module has read its parameters.
        """
        self._of_forward = list(self._lent)
        self._stand_ins.require_unread(loss)

    def end_step(self) -> None:
        """Its backward has ended."""
        self._stand_ins.require_unread()

    def in_step(self, batches: Iterable) -> Iterator[Any]:
        """This rank's batches; behind them it takes part in the forwards of others. All ranks must use it up.

        Args:
            batches: The batches; each is to be given to the model once before the next is asked for.
        """
        batches, has_ended = iter(batches), False
        while True:
            batch = None if has_ended else next(batches, None)
            has_ended = batch is None
            if not any(self._collective.all_gather_object(batch is not None, Message("batches that are left"))):
                return
            if has_ended:
                for bucket in () if self._num_whole else self._of_forward:
                    bucket.whole()
                continue
            self.begin()
            yield batch
            self.end_forward()

    def _share_out(self, stepped, makes_equal=False):
        """Make buckets of whole parameters, and let these go."""
        groups = {}
        for parameter in self._parameters:
            is_stepped = id(parameter) in stepped
            groups.setdefault((self._units_of[id(parameter)], parameter.dtype, is_stepped), []).append(parameter)
        self._buckets = []
        for group in groups.values():
            names = [self._names[id(each)] for each in group]
            if makes_equal:
                make_equal(zip(names, group), self._collective)
            self._buckets.append(SharedBucket(group, names, self._collective, self._stand_ins))
        self._bucket_of = {id(parameter): bucket for bucket in self._buckets for parameter in bucket.parameters}
        self._stepped = stepped

    def _gather(self, keeps):
        self._stand_ins.require_unread(None)
        self._let_caches(True)
        for bucket in self._buckets:
            if keeps:
                bucket.give_back()
            else:
                bucket.whole()

    def _let_go(self, takes_values):
        for bucket in self._buckets:
            if takes_values:
                bucket.take_values()
            bucket.let_go(self._stand_ins)

    def _give_up(self):
        """Training has failed, if anything is let go now: nobody looks any more, so it is NaN."""
        if self._buckets:
            self._stand_ins = NotANumber(self._named)
            self._let_go(takes_values=False)

    def _let_caches(self, may_be):
        """A cache of keys and values would grow in both passes of a unit; the model's files are to say what it said."""
        for config in self._caching:
            config.use_cache = may_be

    def _forward(self, unit, stock, *args, **kwargs):
        if self._num_whole:
            return stock(*args, **kwargs)
        return computed_with(unit, self._lend, args, kwargs)

    def _lend(self, weights):
        whole = {}
        for bucket in dict.fromkeys(self._bucket_of[id(weight)] for weight in weights if self.holds(weight)):
            self._lent.append(bucket)
            whole |= {id(parameter): tensor for parameter, tensor in zip(bucket.parameters, bucket.whole())}
        return [whole.get(id(weight)) for weight in weights]

    def _whole_alone(self, name, stock, *args, **kwargs):
        if not self._num_whole:
            raise DataParallelError(
                "zero_stage=3: {name}() of a model whose parameters are sharded over the ranks. Call it within "
                "mindnlp_dp_plugin.gathered_parameters(model), which all ranks must enter.",
                name=name,
            )
        return stock(*args, **kwargs)


def _require_own_forward(unit):
    if "forward" in vars(unit) and not is_recomputed(unit):
        raise DataParallelError(
            "zero_stage=3 replaces forward, but a {unit} has one of its own, set on the object. Define it in a "
            "class, or use zero_stage=2.",
            unit=type(unit).__name__,
        )
