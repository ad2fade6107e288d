"""Progress on the terminal: a bar, and a line of scores for each epoch."""

import sys

from tqdm import tqdm

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.words import joined, named
from mindnlp_dp_plugin.trainers.mindnlp.public import TrainerCallback

TRAINING = Message("training")


class Terminal(TrainerCallback):
    """Replaces the Trainer's progress bar and its printed dictionaries.

    Args:
        best_by: The score by which the best epoch is kept; None if the last one is.
        task: Says which scores are shown, and which are better the lower they are, beside the loss.
        heading: What the bar is called.
    """

    def __init__(self, best_by: str | None, task: Task, heading: str = TRAINING):
        self._best_by = best_by
        self._shown = dict.fromkeys([*task.shown, *task.best_by, "loss"])
        self._sign = -1 if best_by in ("loss", *task.falling) else 1
        self._heading = heading
        self._bar = None
        self._best = float("-inf")

    def on_train_begin(self, args, state, control, **kwargs):
        """Show the bar; of a run that goes on, the best score so far is known."""
        if state.best_metric is not None:
            self._best = self._sign * state.best_metric
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
            self._bar.set_postfix_str(f"{named('loss')} {logs['loss']:.3f}", refresh=False)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        """Print the epoch's scores."""
        if self._bar is None:
            return
        found = {name: metrics[f"eval_{name}"] for name in self._shown if f"eval_{name}" in metrics}
        if found.get("f1") == found.get("macro_f1"):
            found.pop("f1", None)  # of many classes it is the same
        scores = joined([f"{named(name)} {value:.3f}" for name, value in found.items()])
        line = Message("epoch {epoch:g} of {last:g}: {scores}")
        line = tr(line, epoch=round(state.epoch, 2), last=args.num_train_epochs, scores=scores)
        value = self._sign * found.get(self._best_by, self._sign * float("-inf"))
        if value > self._best:
            self._best = value
            line += "  " + tr("(best so far)")
        self._bar.clear()
        print(line, flush=True)

    def on_train_end(self, args, state, control, **kwargs):
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
