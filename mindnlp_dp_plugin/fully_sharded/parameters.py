"""The parameters of a model while they are shared out: lent to each module that computes, whole on request."""

import copy
import functools
import gc
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mindnlp_dp_plugin.collectives import Collective, compared_at_the_end
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.ddp.replicas import make_equal
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.fully_sharded.buckets import SharedBucket
from mindnlp_dp_plugin.fully_sharded.leading import Leading
from mindnlp_dp_plugin.fully_sharded.stand_ins import stand_ins_of
from mindnlp_dp_plugin.fully_sharded.units import units_of, units_of_parameters
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.cut_buckets import SlicedBucket
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.recompute import Lending, caching_configs, computed_with, is_recomputed

REPLACED = ("forward", "state_dict", "save_pretrained", "__deepcopy__")
SHARING = "_shared_out_by"  # an attribute of a parameter
FOLLOWS, END = "follows", "end"  # in the place of buckets: whoever has no batch, and the end of one
_all = weakref.WeakSet()


@contextmanager
def gathered_parameters(model: Any) -> Iterator[None]:
    """Within the block all parameters of a model are whole; what it changes in them, on all ranks alike, stays.

    All ranks must enter it, and each then holds the whole model. Without ``zero_stage=3`` nothing is done. DeepSpeed
    calls it ``zero.GatheredParameters``, torch ``summon_full_params``.

    Args:
        model: The model that is or was trained, or one that has its parameters.

    Examples:
        >>> with dp.gathered_parameters(model):
        ...     dp.print_rank_0(model.classifier.weight.norm())
    """
    with ExitStack() as stack:
        for shared in _sharing(model):
            stack.enter_context(shared.whole())
        yield


def shared_parameters(model) -> "SharedParameters | None":
    """What shares out a model's parameters. All ranks must call it: parts of another model are made whole."""
    found = None
    for shared in _sharing(model):
        if shared.is_of(model):
            found = shared
        else:
            shared.join()
    return found


def join_parameters(model) -> None:
    """Make the parameters of a model whole, for good. All ranks must call it."""
    for shared in _sharing(model):
        shared.join()


def is_shared_out(parameter) -> bool:
    """Whether a rank keeps only its part of a parameter."""
    return SHARING in vars(parameter)


def _sharing(model):
    found = (vars(parameter).get(SHARING) for parameter in model.parameters())
    return list(dict.fromkeys(shared for shared in found if shared))


def _require_unread_at_the_end():
    for shared in _all:
        shared.require_unread()
    return {}


compared_at_the_end.append(_require_unread_at_the_end)


class SharedParameters:
    """Shares out what a model's units hold, and lends it to each unit while that computes: until ``join``.

    Parameters that are used by the same units, and are stepped or are not, make a bucket. All ranks must run the units
    in the same order, and equally often. It has many attributes because a parameter is found by its unit, its bucket,
    its name and its stand-in.

    Args:
        model: The model, of the same structure on all ranks; what rank 0 holds is shared out, a bucket at a time.
        stepped: The parameters that an optimizer steps.
        collective: The ranks that share them out.
        bucket_cap_mb: Size in MB of a bucket of parameters that stay whole; None for the engine's default.
    """

    def __init__(self, model, stepped: Iterable, collective: Collective, bucket_cap_mb: float | None):
        gc.collect()  # a model that was shared out before may hold itself
        self._model, self._collective, self._patches = weakref.ref(model), collective, Patches()
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        units = units_of(model)
        for unit in units:
            _require_own_forward(unit)
        self._units_of = units_of_parameters(model, units)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._of_model = list(model.parameters())
        self.named = {names[id(each)]: each for each in self._of_model if id(each) in self._units_of}
        self._stand_ins = stand_ins_of(self.named)
        self._buckets, self._bucket_of, self._stepped = [], {}, None
        self._num_whole = 0  # contexts within which parameters are whole
        self._is_led = self._is_in_step = self._trains = False
        self._caching = caching_configs(model)
        for unit in units:
            self._patches.replace(unit, "forward", Lending(self._forward, unit, unit.forward))
        for name in ("state_dict", "save_pretrained"):
            if hasattr(model, name):
                self._patches.stand_in(model, self._whole_alone(name), name)
        for module in (*units, model):
            self._patches.replace(module, "__deepcopy__", functools.partial(_copy_of, module))
        self._share_out({id(parameter) for parameter in stepped}, makes_equal=True)
        for parameter in self.named.values():
            vars(parameter)[SHARING] = self
        _all.add(self)

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole parameters that are shared out."""
        return sum(bucket.num_bytes for bucket in self._buckets)

    def holds(self, parameter) -> bool:
        """Whether a parameter is shared out."""
        return id(parameter) in self._bucket_of

    def is_of(self, model) -> bool:
        """Whether the model is the one that was shared out, with the same parameters."""
        return self._model() is model and list(map(id, model.parameters())) == list(map(id, self._of_model))

    def train(self, patches: Patches) -> None:
        """Training begins: no cache grows in both passes of a unit.

        Args:
            patches: End it.
        """
        if self._num_whole:
            raise DataParallelError(
                "zero_stage=3: train() within mindnlp_dp_plugin.gathered_parameters(model). Leave the block first."
            )
        self._trains = self._is_in_step = True
        self._let_caches(False)
        patches.on_undo(self._end_training)

    def require_unread(self) -> None:
        """Raise if a parameter was read or changed elsewhere while it was shared out."""
        self._stand_ins.require_unread(None)

    def buckets(self, order: list) -> list[SlicedBucket]:
        """The buckets of these parameters, which an optimizer steps. All ranks must call it.

        Args:
            order: The parameters in the order in which backward is expected to meet them.
        """
        stepped = {id(parameter) for parameter in order}
        if stepped != self._stepped:
            self._share_out(stepped)
        last = {id(parameter): place for place, parameter in enumerate(order)}
        shared = [bucket for bucket in self._buckets if id(bucket.parameters[0]) in stepped]
        shared.sort(key=lambda bucket: max(last[id(parameter)] for parameter in bucket.parameters))
        others = [parameter for parameter in order if not self.holds(parameter)]
        return shared + [SlicedBucket(bucket, self._collective) for bucket in plan_buckets(others, self._cap_mb)]

    @contextmanager
    def whole(self) -> Iterator[None]:
        """A context within which parameters are whole; what is changed in them stays. All ranks must enter it."""
        if self._num_whole == 0:
            self._gather()
        self._num_whole += 1
        try:
            yield
        finally:
            self._num_whole -= 1
            if self._num_whole == 0:
                self._let_caches(False)
                for bucket in self._buckets:
                    bucket.take_values()
                    bucket.let_go(self._stand_ins)

    @contextmanager
    def led(self, leads: bool) -> Iterator[Leading | None]:
        """A context in which one rank reads or changes parameters one at a time. All ranks must enter it.

        Args:
            leads: Whether this rank does. Others wait, and yield None.
        """
        leading = Leading(self._bucket_of, self.named, self._collective)
        if self._num_whole:
            yield None
            return
        self.require_unread()
        if not leads:
            leading.follow()
            yield None
            return
        self._is_led = True
        self._let_caches(True)
        try:
            yield leading
        finally:
            self._is_led = False
            self._let_caches(False)
            for bucket in leading.end():
                bucket.let_go(self._stand_ins)
            self.require_unread()

    def join(self) -> None:
        """Make all parameters whole, and let them be. All ranks must call it."""
        self._gather()
        self._buckets, self._bucket_of = [], {}
        for parameter in self.named.values():
            del vars(parameter)[SHARING]
        self._patches.undo()
        _all.discard(self)

    def require_untouched(self) -> None:
        """As a batch begins, and when its backward has ended: the same, without waiting for what a device computes."""
        self._stand_ins.require_unread()

    def end_forward(self, loss: Any = None) -> None:
        """The forward of a batch has ended.

        Args:
            loss: Its loss, where there is one.

        Raises:
            DataParallelError: If code outside of a module has read its parameters.
        """
        self._stand_ins.require_unread(loss)

    def in_step(self, batches: Iterable) -> Iterator[Any]:
        """This rank's batches; behind them it takes part in the forwards of others. All ranks must use it up.

        Args:
            batches: The batches; each is to be given to the model once before the next is asked for.
        """
        batches, has_ended = iter(batches), False
        try:
            while True:
                batch = None if has_ended else next(batches, None)
                has_ended = batch is None
                have = self._collective.all_gather_object(not has_ended, Message("batches that are left"))
                if not any(have):
                    return
                self._is_in_step = all(have)
                if has_ended:
                    self._follow()
                    continue
                self.require_untouched()
                yield batch
                self.end_forward()
                if not self._is_in_step:
                    self._agree(END)
        finally:
            self._is_in_step = self._trains

    def _share_out(self, stepped, makes_equal=False):
        """Make buckets of parameters, those of some units at a time, and let these go."""
        buckets, groups = [], {}
        for name, parameter in self.named.items():
            groups.setdefault((self._units_of[id(parameter)], parameter.dtype), {})[name] = parameter
        for group in groups.values():
            if makes_equal:
                make_equal(group.items(), self._collective)
            for bucket in dict.fromkeys(self._bucket_of[id(each)] for each in group.values() if self.holds(each)):
                bucket.give_back()
            for is_stepped in (True, False):
                names = [name for name, each in group.items() if (id(each) in stepped) == is_stepped]
                if names:
                    alike = [group[name] for name in names]
                    buckets.append(SharedBucket(alike, names, self._collective, self._stand_ins))
        self._buckets, self._stepped = buckets, stepped
        self._bucket_of = {id(parameter): bucket for bucket in buckets for parameter in bucket.parameters}

    def _gather(self):
        if self._num_whole:
            return
        self.require_unread()
        self._let_caches(True)
        for bucket in self._buckets:
            bucket.give_back()

    def _end_training(self):
        self._trains = self._is_in_step = False
        self._let_caches(True)

    def _let_caches(self, may_be):
        """While it trains, a cache of keys and values would grow in both passes of a unit."""
        for config in self._caching:
            config.use_cache = may_be or not self._trains

    def _forward(self, unit, stock, *args, **kwargs):
        if self._num_whole:
            return stock(*args, **kwargs)
        return computed_with(unit, self._lend, args, kwargs)

    def _lend(self, weights):
        whole, buckets = {}, dict.fromkeys(self._bucket_of[id(weight)] for weight in weights if self.holds(weight))
        if not self._is_in_step:
            self.require_unread()
            self._agree([self._buckets.index(bucket) for bucket in buckets])
        for bucket in buckets:
            whole |= {id(parameter): tensor for parameter, tensor in zip(bucket.parameters, bucket.whole())}
        return [whole.get(id(weight)) for weight in weights]

    def _follow(self):
        """Take part in the forwards of ranks that have a batch."""
        while (numbers := self._agree(FOLLOWS)) != END:
            for number in numbers:
                self._buckets[number].whole()

    def _agree(self, numbers):
        """The buckets that all gather next. Ranks compute the same, or the job ends instead of computing on."""
        everyone = self._collective.all_gather_object(numbers, Message("parameters of a module"))
        asked = [theirs for theirs in everyone if theirs != FOLLOWS]
        if any(theirs != asked[0] for theirs in asked):
            raise DataParallelError(
                "zero_stage=3: ranks compute different modules of a model that is sharded over them. All must call "
                "it alike, or within mindnlp_dp_plugin.gathered_parameters(model)."
            )
        return asked[0]

    def _whole_alone(self, name):
        def call(stock, *args, **kwargs):
            if not (self._num_whole or self._is_led):
                raise DataParallelError(
                    "zero_stage=3: {name}() of a model whose parameters are sharded over the ranks. Call it within "
                    "mindnlp_dp_plugin.gathered_parameters(model), which all ranks must enter.",
                    name=name,
                )
            return stock(*args, **kwargs)

        return call


def _copy_of(module, memo):
    """A deep copy that shares nothing out: without what was replaced in the module."""
    found = {name: value for name, value in vars(module).items() if name not in REPLACED}
    stock = getattr(vars(module).get("forward"), "args", (None, None))[1]
    if stock is not None and stock.__func__ is not type(module).forward:  # it computed its activations again before
        found["forward"] = stock
    memo[id(module)] = copied = type(module).__new__(type(module))
    copied.__setstate__(copy.deepcopy(found, memo))
    return copied


def _require_own_forward(unit):
    if "forward" in vars(unit) and not is_recomputed(unit):
        raise DataParallelError(
            "zero_stage=3 replaces forward, but a {unit} has one of its own, set on the object. Define it in a "
            "class, or use zero_stage=2.",
            unit=type(unit).__name__,
        )
