"""Write what the Trainer logs, and measurements over all ranks, as TensorBoard files."""

import atexit
import json
import time
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.trainers.mindnlp.observe.tracker import Tracker

FLUSH_S = 10  # a killed job loses at most this much


class TensorBoardCallback(Tracker):
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
        super().__init__()
        try:
            import tensorboardX  # noqa: F401
        except ImportError as error:
            raise DataParallelError(
                "TensorBoardCallback needs tensorboardX ({error}): pip install 'mindnlp-dp-plugin[tracking]'.",
                error=error,
            ) from error
        self._chosen_folder = log_dir
        self._folder = None
        self._writer = None

    def _begin(self, args, state, settings):
        self._folder = self._folder_for(args, state)
        self._writer = self._open(purge_step=state.global_step + 1)
        atexit.register(self._writer.close)
        for name, values in settings.items():
            self._writer.add_text(name, _as_text(values), state.global_step)

    def _write(self, values, args, state):
        writer = self._writer or self._open_again(args, state)
        for tag, value in values.items():
            writer.add_scalar(tag, value, state.global_step)
        if writer is not self._writer:
            writer.close()

    def _end(self):
        if self._writer is not None:
            atexit.unregister(self._writer.close)
            self._writer.close()
            self._writer = None

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


def _as_text(settings):
    """JSON, as a block of Markdown."""
    return "    " + json.dumps(settings, indent=2, default=str).replace("\n", "\n    ")
