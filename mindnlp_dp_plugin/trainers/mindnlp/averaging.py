"""Which gradients are averaged, and when: those of the Trainer's backward, for every parameter the optimizer steps."""

import time
from collections.abc import Callable, Sequence

from mindnlp.engine.trainer.base import Trainer

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.parts import Share
from mindnlp_dp_plugin.ddp.poll import Poll
from mindnlp_dp_plugin.ddp.replicas import digest, make_equal, require_same_structure
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.optim.parameters import named_parameters, stepped_parameters
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainers.mindnlp.averages import CountedAverage
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import MixedPrecision
from mindnlp_dp_plugin.trainers.mindnlp.preemption import Preemption
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress

HINT = Message("Give the optimizer the same parameters on every rank, at the same step.")
NUM_NAMED = 4


class Averaging:
    """Averages gradients between the Trainer's backward and its optimizer step.

    The parameters' hooks are live from the end of the Trainer's forward to the end of its backward. So gradients taken
    elsewhere, inside ``compute_loss``, in callbacks or in an overridden ``training_step``, fill no bucket.

    An overridden ``training_step`` may read gradients and call backward again (FGM, PGD, SAM). Then gradients are
    averaged after each backward, so it sees what it would see in one process.

    Args:
        trainer: The Trainer.
        collective: The ranks that train together.
        carrier: The same ranks, for gradients.
        config: The settings.
        progress: Counts where training stands.
        preemption: What signals have come to this rank; the ranks tell each other.
        precision: What forward computes in, and the scale of the loss.
        steps: Calls the checks around the optimizer's steps.
        replacements: Restores the Trainer.
        shares: What of the gradients this rank keeps, as ``GradientReducer`` asks for it; None for all.

    Raises:
        DataParallelError: If ``training_step`` is overridden, and may read gradients that are not kept.

    Attributes:
        parameters: The parameters that the optimizer steps and the reducer averages, by name.
        reducer: Averages gradients.
        average: The mean that ``average_over`` chooses; None for the mean over ranks.
    """

    def __init__(
        self,
        trainer,
        collective: Collective,
        carrier: Collective,
        config: DataParallelConfig,
        progress: Progress,
        preemption: Preemption,
        precision: MixedPrecision,
        steps: WatchedSteps,
        replacements: Replacements,
        shares: Callable[[list], Sequence[Share]] | None = None,
    ):
        self._trainer = trainer
        self._collective = collective
        self._progress = progress
        self._preemption = preemption
        self._precision = precision
        self._steps = steps
        self.parameters = self._common_parameters()
        parameters = list(self.parameters.values())
        self.reducer = GradientReducer(parameters, carrier, config.bucket_cap_mb, config.comm_dtype, shares)
        self.average = None
        if config.average_over != "ranks":
            self.average = CountedAverage(trainer, parameters, collective, config.average_over)
        steps.before.append(self._require_averages)
        if self.average:
            steps.after.append(self.average.mean.reset)
        self._has_own_step = _overrides(trainer, "training_step")
        self._weight = progress.nominal_accumulation / trainer.args.gradient_accumulation_steps
        self._is_weighted = False
        if shares and self._has_own_step:
            raise DataParallelError(
                "zero_stage=2 with an overridden training_step ({trainer}): it may read gradients, of which a rank "
                "keeps only its part. Take zero_stage=1, or override compute_loss instead.",
                trainer=type(trainer).__name__,
            )
        self._may_replace_gradients = self._has_own_step or _overrides(trainer, "update_gradient_by_distributed_type")
        self._poll = None
        self._polled_seconds = 0.0
        self._is_in_trainers_step = False
        self._share = None
        replacements.stand_in(trainer, self.compute_loss)  # on the instance, so that an overriding subclass is covered

    def begin_micro_step(self) -> None:
        """A micro-step begins. All ranks must call it."""
        if self._progress.begins_optimizer_step:
            self._ask_all_ranks()
        self.reducer.release()
        self._is_weighted = False
        if self.average:
            self.average.begin_micro_step()

    def end_micro_step(self) -> None:
        """A micro-step ends; the optimizer step or the next batch follows. All ranks must call it."""
        if self.average:
            self.average.require_counted()
        else:
            self._precision.require_scaled()
            self._require_weighted()
        if self._progress.optimizer_steps_next:
            self._average_what_is_left()
            self._precision.unscale(self.reducer)
            self._steps.watch(self._trainer.optimizer)

    def trainers_own_step(self, stock, model, inputs):
        """The Trainer's ``training_step``, called once per micro-step, or more often by an override."""
        self.reducer.release()
        if self.average:
            self.average.take_in(inputs)
            self._share = self.average.mean.sum_counts() if self._averages_now else None
            if not self.average.weight:  # the mean over a batch whose count is 0 is 0 / 0: it is left out
                self._expect_backward()
                self._trainer.update_gradient_by_distributed_type(model)
                return self.average.record_nothing()
        self._is_in_trainers_step = True
        try:
            loss = self._precision.unscaled(stock(self._trainer, model, inputs))
        finally:
            self._is_in_trainers_step = False
        if self.average:
            return self.average.record(loss)
        return loss if self._weight == 1 else loss / self._weight

    def compute_loss(self, stock, *args, **kwargs):
        """The Trainer's forward; hooks are live when it is done."""
        if not self._is_in_trainers_step:
            return stock(*args, **kwargs)  # evaluation, or a call by the user's code
        self._is_in_trainers_step = False  # losses that it computes inside are not the Trainer's
        with self._precision.running():
            loss = stock(*args, **kwargs)
        self._expect_backward()
        weight = self.average.weight if self.average else self._weight
        self._is_weighted = True
        return self._precision.scaled(loss if weight == 1 else loss * weight)

    def end_backward(self) -> None:
        """Average the gradients, if they are due. All ranks must call it."""
        self._is_in_trainers_step = False
        if self.average:
            self.average.require_counted()
        if self._averages_now:
            self._require_agreement()
            self.reducer.finish()

    @property
    def waited_seconds(self) -> float:
        """Seconds this rank has waited for others while averaging so far."""
        return self.reducer.waited_seconds + self._polled_seconds

    @property
    def _averages_now(self):
        return self._has_own_step or self._progress.optimizer_steps_next

    def _expect_backward(self):
        self._require_agreement()
        if self._averages_now:
            self.reducer.prepare(self._share)

    def _ask_all_ranks(self):
        """Ask whether any rank is to stop, or its optimizer steps other parameters than before; answered in forward."""
        known = {id(parameter) for parameter in self.parameters.values()}
        has_changed = {id(parameter) for parameter in stepped_parameters(self._trainer.optimizer)} != known
        self._poll = Poll([has_changed, *self._preemption.votes()], self._collective)
        if has_changed and self._hear_all_ranks() == self._collective.world_size:
            self._follow_optimizer()

    def _hear_all_ranks(self) -> int:
        """The number of ranks with new parameters."""
        num_changed, *votes = self._poll.count()
        self._preemption.count(votes)
        return num_changed

    def _require_agreement(self):
        began = time.perf_counter()
        has_changed = self._poll is not None and self._hear_all_ranks()
        self._polled_seconds += time.perf_counter() - began
        self._poll = None
        if has_changed:
            self._follow_optimizer()

    def _follow_optimizer(self):
        """From now on average the parameters that the optimizer steps now. All ranks must call it."""
        self._poll = None
        known = {id(parameter) for parameter in self.parameters.values()}
        self.parameters = found = self._common_parameters()
        new = [(name, parameter) for name, parameter in found.items() if id(parameter) not in known]
        make_equal(new, self._collective)
        self.reducer.follow(found.values())
        if self.average:
            self.average.mean.parameters = list(found.values())

    def _common_parameters(self):
        """The parameters the optimizer steps, by name; the same on all ranks."""
        found = named_parameters(self._trainer.model, self._trainer.optimizer)
        verdict = tr("Optimizers of ranks differ after step {step}", step=self._trainer.state.global_step)
        require_same_structure(found.items(), self._collective, verdict, HINT)
        self._trainer.grad_fn = None  # the Trainer then rebuilds it for these parameters
        return found

    def _average_what_is_left(self):
        """Before an optimizer step, average again if an overridden ``training_step`` changed or added gradients."""
        if not self._may_replace_gradients:
            return
        self._require_agreement()
        is_averaged = all(map(self.reducer.has_averaged, self.parameters.values()))
        replaced = [0 if gradient is None else digest(gradient) for gradient in self.reducer.replaced_gradients()]
        everyone = self._collective.all_gather_object((is_averaged, replaced))
        if not is_averaged or any(theirs != everyone[0] for theirs in everyone):
            self.reducer.finish()

    def _require_weighted(self):
        if self._weight != 1 and not self._is_weighted:
            raise DataParallelError(
                "Training began with gradient_accumulation_steps={before}, whose gradients are summed, and went on "
                "with {now}. So losses are weighted: an overridden training_step must call "
                "super().training_step(model, inputs). Or take the old accumulation.",
                before=self._progress.nominal_accumulation,
                now=self._trainer.args.gradient_accumulation_steps,
            )

    def _require_averages(self):
        stepped = stepped_parameters(self._trainer.optimizer)
        missing = {id(parameter) for parameter in stepped if not self.reducer.has_averaged(parameter)}
        if len(missing) == len(stepped):
            raise DataParallelError(
                "optimizer.step() with gradients that were not averaged over the ranks: replicas would drift apart. "
                "They are averaged by the end of the training_step after which the Trainer steps: step there only."
            )
        if missing:
            named = named_parameters(self._trainer.model, self._trainer.optimizer)
            raise DataParallelError(
                "optimizer.step() with parameters whose gradients were not averaged over the ranks: replicas would "
                "drift apart. They are {names}. Give the optimizer new parameters in on_step_end, on_step_begin or "
                "on_epoch_begin.",
                names=_listed(name for name in named if id(named[name]) in missing),
            )


def _overrides(trainer, name):
    """Whether a subclass or the script replaced a method."""
    return getattr(getattr(trainer, name), "__func__", None) is not getattr(Trainer, name)


def _listed(names):
    names = list(names)
    shown, num_more = ", ".join(names[:NUM_NAMED]), len(names) - NUM_NAMED
    return tr("{names} and {num} more", names=shown, num=num_more) if num_more > 0 else shown
