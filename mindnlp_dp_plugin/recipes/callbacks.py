"""What goes along with a training: progress on the terminal, and the ranks' speed."""

import sys
from statistics import fmean, harmonic_mean

from tqdm import tqdm

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.scores import decimal
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.words import joined, named
from mindnlp_dp_plugin.trainers.mindnlp.public import TrainerCallback
from mindnlp_dp_plugin.trainers.observe.tracker import Tracker

TRAINING = Message("training")


class Terminal(TrainerCallback):
    """A bar, and a line of scores for each epoch, in place of the Trainer's own.

    Args:
        task: Says which scores are shown, beside the loss.
        heading: What the bar is called.
        without: Names of scores that are others' once more, such as the F1 of one class where none is named.
    """

    def __init__(self, task: Task, heading: str = TRAINING, without: tuple[str, ...] = ()):
        self._heading, self._bar = heading, None
        self._shown = [name for name in dict.fromkeys([*task.shown, *task.best_by, "loss"]) if name not in without]

    def on_train_begin(self, args, state, control, **kwargs):
        """Show the bar."""
        if state.is_world_process_zero:
            how = {"unit": tr("step"), "file": sys.stdout, "mininterval": 1, "ncols": 80, "leave": False}
            self._bar = tqdm(total=state.max_steps, initial=state.global_step, desc=tr(self._heading), **how)

    def on_step_end(self, args, state, control, **kwargs):
        """Advance the bar."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Show the loss beside the bar."""
        if self._bar is not None and "loss" in (logs or {}):
            self._bar.set_postfix_str(f"{named('loss')} {decimal(logs['loss'])}", refresh=False)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        """Print the epoch's scores."""
        if self._bar is None:
            return
        found = {name: metrics[f"eval_{name}"] for name in self._shown if f"eval_{name}" in metrics}
        scores = joined([f"{named(name)} {decimal(value)}" for name, value in found.items()])
        line = Message("epoch {epoch:g} of {last:g}: {scores}")
        line = tr(line, epoch=round(state.epoch, 2), last=args.num_train_epochs, scores=scores)
        value, best = metrics.get(f"eval_{args.metric_for_best_model}"), state.best_metric  # best of the epochs before
        if value is not None and (best is None or value != best and (value > best) == args.greater_is_better):
            line += "  " + tr("(best so far)")
        self._bar.clear()
        print(line, flush=True)

    def on_train_end(self, args, state, control, **kwargs):
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Throughput(Tracker):
    """Keeps what trackers write of the ranks' speed, for the report; evaluations and saves do not count."""

    def __init__(self):
        super().__init__(self)

    def begin(self, args, state, settings):
        """Training begins."""
        self._batch = {"rows_per_rank": args.per_device_train_batch_size * args.gradient_accumulation_steps}
        self._batch["global_batch"] = self._batch["rows_per_rank"] * args.world_size
        self._speeds, self._waits, self._of_work = [], [], {}

    def write(self, values, args, state):
        """Keep what a log says of speed."""
        if "train/samples_per_second" in values:
            self._speeds.append(values["train/samples_per_second"])
            self._waits.append(values["train/communication_wait_seconds"])
            work = self.meter.work
            self._of_work = work.numbers(self.meter.seconds)
            if self._of_work and work.of_ranks.is_masked:
                self._of_work["padding"] = work.of_ranks.padding

    def close(self):
        """What is kept stays."""

    def summary(self, num_steps: int) -> dict:
        """Rows of a step, what is done in a second, seconds of a step, and how much of it ranks waited: on rank 0."""
        if not self._speeds:
            return {}
        speed = harmonic_mean(self._speeds)
        seconds = self._batch["global_batch"] / speed
        known = {"steps": num_steps, "rows_per_second": speed, "seconds_per_step": seconds}
        return {**self._batch, **known, "waiting": min(1.0, fmean(self._waits) / seconds), **self._of_work}
