"""Write what the Trainer logs, and measurements over all ranks, as TensorBoard files."""

import atexit
import json
import numbers
import time
from dataclasses import asdict
from pathlib import Path

from mindnlp.core import nn

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainer.observe.throughput import Meter, Stopwatch

SPLITS = ("eval", "test")
FLUSH_S = 10  # a killed job loses at most this much


class TensorBoardCallback(Stopwatch):
    """Writes TensorBoard files on rank 0, whenever the Trainer logs: ``Trainer(callbacks=[TensorBoardCallback()])``.

    One series for each tag, by optimizer step:

    - ``train/<name>`` for each number the Trainer logs: ``loss``, ``learning_rate``, ``epoch`` and, at the end,
      ``train_runtime`` and its like. ``eval/<metric>`` for evaluations, ``test/<metric>`` for those with that prefix.
    - ``train/grad_norm``: of the averaged gradients of the last step, before clipping, as clipping computes it. With
      ``max_grad_norm=0`` nothing is clipped, and there is no such series.
    - ``train/samples_per_second``: over all ranks, since the last log; evaluations and saves do not count.
    - ``train/communication_wait_seconds``: how long a rank waited in a step for all-reduces after backward, the mean
      over the steps since the last log and over all ranks; 0 in one process.
    - ``train/slowest_rank``: what the slowest rank took for its own work in the last 50 steps, in times of the median.
    - As texts, ``args`` and, on several ranks, ``data_parallel_config``.

    Steps that do not log compute nothing and copy nothing to the host. A resumed run continues in the same folder; what
    the interrupted run wrote after its checkpoint is hidden.

    Args:
        log_dir: The folder. If None, ``TrainingArguments.logging_dir``; if that is the default, which is named after
            the time, a resumed run takes the newest folder beside it.

    Raises:
        DataParallelError: If tensorboardX is not installed.
    """

    def __init__(self, log_dir: str | None = None):
        try:
            import tensorboardX  # noqa: F401
        except ImportError as error:
            raise DataParallelError(
                f"TensorBoardCallback needs tensorboardX ({error}): pip install 'mindnlp-dp-plugin[tracking]'."
            ) from error
        self._chosen_folder = log_dir
        self._folder = None
        self._writer = None
        self._meter = None
        self._config = None
        self._grad_norm = None
        self._replacements = Replacements()
        self._last_steps = {}

    def follow(self, meter: Meter, config: DataParallelConfig) -> None:
        """Write measurements of all ranks, gathered by ``meter``, until ``close``."""
        self._meter, self._config = meter, config

    def close(self) -> None:
        """Finish the file and restore the Trainer. Called when training ends, also by an error."""
        self._meter = self._config = None
        self._finish()

    def on_train_begin(self, args, state, control, **kwargs):
        """Open the file and write the settings."""
        super().on_train_begin(args, state, control, **kwargs)
        self._finish()  # in one process, close is not called if training raises
        self._logged_steps = self._logged_seconds = self._logged_wait = 0
        if not state.is_world_process_zero:
            return
        self._folder = self._folder_for(args, state)
        self._last_steps = {}
        self._writer = self._open(purge_step=state.global_step + 1)
        atexit.register(self._writer.close)
        self._writer.add_text("args", _as_text(args.to_dict()), state.global_step)
        if self._config is not None:
            self._writer.add_text("data_parallel_config", _as_text(asdict(self._config)), state.global_step)
        self._listen_to_clipping()

    def on_log(self, args, state, control, logs=None, train_dataset=None, **kwargs):
        """Write what was logged."""
        if not state.is_world_process_zero:
            return
        values = {_tag(name): value for name, value in logs.items() if name != "epoch"}
        if "loss" in logs:
            values["train/epoch"] = logs["epoch"]
            values.update(self._since_last_log(args, train_dataset))
        writer = self._writer or self._open_again(args, state)
        for tag, value in values.items():
            is_new = state.global_step > self._last_steps.get(tag, -1)
            if is_new and isinstance(value, numbers.Real):
                writer.add_scalar(tag, value, state.global_step)
                self._last_steps[tag] = state.global_step
        if writer is not self._writer:
            writer.close()

    def on_train_end(self, args, state, control, **kwargs):
        """Finish the file."""
        self.close()

    def _finish(self):
        self._grad_norm = None
        self._replacements.undo()
        if self._writer is not None:
            atexit.unregister(self._writer.close)
            self._writer.close()
            self._writer = None

    def _since_last_log(self, args, train_dataset):
        seconds, wait = self.seconds, 0.0
        slowest = None
        if self._meter is not None:
            wait = sum(self._meter.waited_seconds) / len(self._meter.waited_seconds)
            slowest = self._meter.pace.slowest
        num_steps = self.num_steps - self._logged_steps
        rows = train_dataset.get_batch_size() * args.gradient_accumulation_steps * args.world_size * num_steps
        values = {
            "train/samples_per_second": rows / (seconds - self._logged_seconds),
            "train/communication_wait_seconds": (wait - self._logged_wait) / num_steps,
        }
        if slowest is not None:
            values["train/slowest_rank"] = slowest
        if self._grad_norm is not None:
            values["train/grad_norm"] = self._grad_norm.item()
        self._logged_steps, self._logged_seconds, self._logged_wait = self.num_steps, seconds, wait
        return values

    def _listen_to_clipping(self):
        """Keep the norm that the Trainer's clipping returns and discards; it stays on the device."""
        clip = nn.utils.clip_grad_norm_

        def clip_and_keep(*args, **kwargs):
            self._grad_norm = clip(*args, **kwargs)
            return self._grad_norm

        self._replacements.replace(nn.utils, "clip_grad_norm_", clip_and_keep)

    def _folder_for(self, args, state):
        if self._chosen_folder is not None:
            return Path(self._chosen_folder)
        folder, home = Path(args.logging_dir), Path(args.output_dir, "runs")
        if state.global_step and folder.parent == home and not folder.exists():
            earlier = sorted(home.glob("*/events.out.tfevents.*"), key=lambda file: file.stat().st_mtime)
            return earlier[-1].parent if earlier else folder
        return folder

    def _open(self, purge_step=None):
        from tensorboardX import SummaryWriter

        # tensorboardX names files by the second, and would overwrite a file of the same second.
        suffix = f".{time.time_ns()}"
        return SummaryWriter(str(self._folder), purge_step=purge_step, flush_secs=FLUSH_S, filename_suffix=suffix)

    def _open_again(self, args, state):
        """Open the file again for an evaluation after training."""
        self._folder = self._folder or self._folder_for(args, state)
        return self._open()


def _tag(name):
    split, _, rest = name.partition("_")
    return f"{split}/{rest}" if split in SPLITS else f"train/{name}"


def _as_text(settings):
    """JSON, as a block of Markdown."""
    return "    " + json.dumps(settings, indent=2, default=str).replace("\n", "\n    ")
