"""What is averaged is what is stepped: the parameters of the optimizer, the same on all ranks."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.replicas import make_equal, require_same_structure
from mindnlp_dp_plugin.ddp.vote import Vote
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.optim.parameters import named_parameters, stepped_parameters
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.hyperparameters import Hyperparameters

HINT = Message("Give the optimizer the same parameters on every rank, at the same step.")
NUM_NAMED = 4


class SteppedParameters:
    """Asks all ranks before each optimizer step whether an optimizer has new parameters, and lets them join.

    The question travels during forward, with those of ``Door.votes`` and what ranks step with, so it costs no wait.

    Args:
        door: The loop.
        collective: The ranks that train together.
        is_shared_out: Whether of a parameter each rank keeps another part, which need not be made equal.

    Attributes:
        named: The parameters that are stepped and averaged, by name.
        follow: Is called with them when they have changed.
        waited_seconds: Seconds this rank has waited for answers so far.
    """

    def __init__(self, door: Door, collective: Collective, is_shared_out: Callable[[Any], bool]):
        self._is_shared_out = is_shared_out
        self._door = door
        self._collective = collective
        self._vote = None
        self.follow: Callable[[list], None] = lambda parameters: None
        self.waited_seconds = 0.0
        self.named: dict[str, Any] = self._common()

    def ask(self, counts: Sequence[int] = (), hear: Callable[[list[int]], None] = lambda totals: None) -> None:
        """Ask all ranks. All must call it, before the first forward of an optimizer step.

        Args:
            counts: Numbers to sum over the ranks on the way; as many on all ranks.
            hear: Is called with the sums, when the answers are heard.
        """
        has_changed = {id(parameter) for parameter in stepped_parameters(self._door.optimizer)} != self._known()
        answers = [has_changed, *self._door.votes()]
        self._num_answers, self._hear_counts = len(answers), hear
        self._asked = self._hyperparameters.values()
        self._vote = Vote([*answers, *counts, *self._asked], self._collective)
        if has_changed and self._hear() == self._collective.world_size:
            self._follow_optimizer()

    def send(self, counts: Sequence[int], hear: Callable[[list[int]], None]) -> None:
        """Only sum numbers, where no question is due. All ranks must call it; arguments as of ``ask``."""
        self._num_answers, self._hear_counts, self._asked = 0, hear, []
        self._vote = Vote(counts, self._collective)

    def agree(self) -> None:
        """Hear the answers, if any are due; new parameters join. All ranks must call it, before backward begins."""
        began = time.perf_counter()
        has_changed = self._vote is not None and self._hear()
        self.waited_seconds += time.perf_counter() - began
        self._vote = None
        if has_changed:
            self._follow_optimizer()

    def require_averaged(self, reducer: GradientReducer) -> None:
        """Raise if the optimizer is about to step on a gradient that was not averaged.

        Raises:
            DataParallelError: Naming the parameters.
        """
        stepped = stepped_parameters(self._door.optimizer)
        missing = {id(parameter) for parameter in stepped if not reducer.averaged.has(parameter)}
        if len(missing) == len(stepped):
            raise DataParallelError(
                "optimizer.step() with gradients that were not averaged over the ranks: replicas would drift apart. "
                "{hint}",
                hint=self._door.averaged_when,
            )
        if missing:
            named = named_parameters(self._door.model, self._door.optimizer)
            raise DataParallelError(
                "optimizer.step() with parameters whose gradients were not averaged over the ranks: replicas would "
                "drift apart. They are {names}. {hint}",
                names=listed(name for name in named if id(named[name]) in missing),
                hint=self._door.joins_when,
            )

    def _known(self):
        return {id(parameter) for parameter in self.named.values()}

    def _hear(self) -> int:
        """The number of ranks with new parameters."""
        sums = self._vote.count()
        whole, asked = sums[: len(sums) - len(self._asked)], sums[len(sums) - len(self._asked) :]
        whole = [round(number) for number in whole]
        answers, counts = whole[: self._num_answers], whole[self._num_answers :]
        self._hear_counts(counts)
        if not answers:
            return 0
        self._hyperparameters.require_same(self._asked, asked, self._collective.world_size)
        num_changed, *votes = answers
        self._door.count(votes)
        return num_changed

    def _follow_optimizer(self):
        self._vote = None
        known = self._known()
        self.named = self._common()
        new = [(name, parameter) for name, parameter in self.named.items() if id(parameter) not in known]
        make_equal([each for each in new if not self._is_shared_out(each[1])], self._collective)
        self.follow(list(self.named.values()))

    def _common(self):
        """The parameters the optimizer steps, by name; the same on all ranks, or an error."""
        found = named_parameters(self._door.model, self._door.optimizer)
        verdict = tr("Optimizers of ranks differ after step {step}", step=self._door.num_steps)
        require_same_structure(found.items(), self._collective, verdict, HINT)
        self._door.forget_parameters()
        self._hyperparameters = Hyperparameters(self._door, self._collective)
        return found


def listed(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    names = list(names)
    shown, num_more = ", ".join(names[:NUM_NAMED]), len(names) - NUM_NAMED
    return tr("{names} and {num} more", names=shown, num=num_more) if num_more > 0 else shown
