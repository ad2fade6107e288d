"""Ranks that step on one averaged gradient begin with one model: MindSpore's own loops draw each rank's by itself."""

import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import mindspore
import numpy as np
from mindspore.communication import GlobalComm

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.replicas import DIGESTS, digest, make_equal
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.guard import SPLITS_MODELS, compiler

logger = logging.getLogger(__name__)


class Beginnings:
    """Compares the parameters that ranks begin with, once, and says if they read the same rows.

    Those of a reducer of gradients, which all ranks call, when it is first called or compiled. Those of an optimizer
    that steps on sums of the script's own, when the script sums again: perhaps not all ranks step.

    Args:
        group: The ranks.

    Attributes:
        on_refusal: Is called on all ranks before they are told that they hold different models.
    """

    def __init__(self, group: Collective):
        self._group = group
        self.on_refusal: Callable[[], None] = lambda: None
        self._of_reducers = weakref.WeakKeyDictionary()
        self._before_first_step, self._is_over = None, False
        self._has_stepped, self._read_alike = False, None

    def follow_reducers(self, kind: type, patches: Patches) -> None:
        """Look at what reducers of gradients are made for, and at their first use.

        Args:
            kind: ``nn.DistributedGradReducer``, MindSpore's or what answers for it.
            patches: Restores it.
        """

        def __init__(stock, reducer, parameters, *args, **kwargs):
            parameters = list(parameters)
            stock(reducer, parameters, *args, **kwargs)
            asked = args[3] if len(args) > 3 else kwargs.get("group")
            is_for_all = asked in (None, GlobalComm.WORLD_COMM_GROUP)
            if is_for_all and mindspore.get_auto_parallel_context("parallel_mode") not in SPLITS_MODELS:
                self._take(reducer, [each for each in parameters if not each.layerwise_parallel])

        def __call__(stock, reducer, grads, *args, **kwargs):
            self._require_same_of(reducer)
            averaged = stock(reducer, grads, *args, **kwargs)
            if not self._has_stepped:
                for own, mean in zip(*([each] if hasattr(each, "asnumpy") else each for each in (grads, averaged))):
                    self.saw(own.asnumpy(), mean.asnumpy())
            return averaged

        def get_parse_method_of_class(stock, cell, *args, **kwargs):
            if isinstance(cell, kind) and not _broadcasts():  # then MindSpore does, behind the compilation
                self._require_same_of(cell)
            return stock(cell, *args, **kwargs)

        patches.stand_in(kind, __init__)
        patches.stand_in(kind, __call__)
        if self._group.forms_cluster:  # otherwise there is no such graph
            patches.stand_in(compiler(), get_parse_method_of_class)

    def saw(self, own: np.ndarray, result: np.ndarray) -> None:
        """What this rank gave to a sum or a mean of all ranks, and what came of it."""
        if not self._has_stepped and own.any():
            factors = 1, self._group.world_size
            is_alike = any(np.allclose(result, factor * own, rtol=1e-6, atol=0) for factor in factors)
            self._read_alike = is_alike and self._read_alike is not False

    def note(self, optimizer: Any) -> None:
        """An optimizer is about to step for the first time, on gradients that the script has summed."""
        if self._read_alike and not self._has_stepped and self._group.rank == 0:
            logger.warning(
                tr(
                    "All ranks have computed the same gradients: they read the same rows, and train as one process "
                    "with one rank's batch. Give each rank rows of its own: num_shards=get_group_size() and "
                    "shard_id=get_rank() of the data set."
                )
            )
        self._has_stepped = True
        if not self._is_over and self._before_first_step is None:
            self._before_first_step = _digests(parameters_of(optimizer))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compare; the same on all ranks."""
        return self._is_over

    @property
    def is_due(self) -> bool:
        """Whether this rank has something to compare with the others'."""
        return self._before_first_step is not None

    def compare(self) -> None:
        """Compare what the ranks have that have stepped. All ranks must call it.

        Raises:
            DataParallelError: If they had different parameters.
        """
        self._require_same(self._before_first_step)
        self._before_first_step = None

    def _take(self, reducer, parameters):
        self._of_reducers[reducer] = parameters
        if _broadcasts():  # as graphs do; MindSpore's PyNative does not
            make_equal([(each.name, each) for each in parameters], self._group)

    def _require_same_of(self, reducer):
        if (parameters := self._of_reducers.pop(reducer, None)) is not None:
            self._require_same(_digests((parameter.name, parameter) for parameter in parameters))

    def _require_same(self, mine):
        self._is_over = True
        everyone = self._group.all_gather_object(mine, DIGESTS)
        compared = [(rank, theirs) for rank, theirs in enumerate(everyone) if theirs is not None]
        (first, expected), *others = compared
        for rank, theirs in others:
            found = [name for (name, one), (_, other) in zip(expected, theirs) if one != other]
            if found:
                self.on_refusal()
                raise DataParallelError(
                    "Ranks hold different models and step on one averaged gradient: {name} on rank {rank} is not "
                    "what rank {first} holds. Call mindspore.set_seed(1) on all ranks before you build the network, "
                    "or mindspore.set_auto_parallel_context(parameter_broadcast=True) before you make Model or "
                    "nn.DistributedGradReducer. If each rank is meant to train a model of its own, set "
                    "MINDNLP_DP_TRAIN_APART=1.",
                    name=found[0],
                    rank=rank,
                    first=first,
                )


def parameters_of(optimizer: Any) -> list[tuple[str, Any]]:
    """What an optimizer of MindSpore or MindNLP steps, by names that are the same on all ranks."""
    if groups := getattr(optimizer, "param_groups", None):  # MindNLP's, whose parameters' names are random
        parameters = [parameter for group in groups for parameter in group["params"]]
        named = [(f"{type(optimizer).__name__}[{index}]", each) for index, each in enumerate(parameters)]
    else:
        named = [(parameter.name, parameter) for parameter in optimizer.parameters]
    return [(name, each) for name, each in named if not getattr(each, "layerwise_parallel", False)]


def _broadcasts():
    return mindspore.get_auto_parallel_context("parameter_broadcast")


def _digests(named: Iterable):
    return [(name, digest(each)) for name, each in named]
