"""What a tracker of training shares with others: what it writes, when, and on which rank."""

import numbers
from abc import abstractmethod
from dataclasses import asdict

from mindnlp.core import nn

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.mindnlp.observe.callbacks import Meter, Stopwatch
from mindnlp_dp_plugin.trainers.observe.work import Amount, Work

SPLITS = ("eval", "test")


class Tracker(Stopwatch):
    """Writes on rank 0, whenever the Trainer logs; a subclass says where.

    ``TensorBoardCallback`` says which series there are. Steps that do not log compute nothing and copy nothing to the
    host.
    """

    def __init__(self):
        self._meter = None
        self._config = None
        self._work = None
        self._grad_norm = None
        self._patches = Patches()
        self._last_steps = {}

    def follow(self, meter: Meter, config: DataParallelConfig) -> None:
        """Write measurements of all ranks, gathered by ``meter``, until ``close``."""
        self._meter, self._config, self._work = meter, config, meter.work

    def count(self, work: Work) -> None:
        """Write what one process computes, too, until ``close``."""
        self._work = work

    def close(self) -> None:
        """Finish what is written and restore the Trainer. Called when training ends, also by an error."""
        self._meter = self._config = self._work = None
        self._finish()

    def on_train_begin(self, args, state, control, **kwargs):
        """Begin, with the settings."""
        super().on_train_begin(args, state, control, **kwargs)
        self._finish()  # in one process, close is not called if training raises
        self._logged_steps = self._logged_seconds = self._logged_wait = 0
        self._logged_work = Amount()
        if not state.is_world_process_zero:
            return
        self._last_steps = {}
        settings = {"args": args.to_dict()}
        if self._config is not None:
            settings["data_parallel_config"] = asdict(self._config)
        self._begin(args, state, settings)
        self._listen_to_clipping()

    def on_log(self, args, state, control, logs=None, train_dataset=None, **kwargs):
        """Write what was logged."""
        if not state.is_world_process_zero:
            return
        values = {_tag(name): value for name, value in logs.items() if name != "epoch"}
        if "loss" in logs:
            values["train/epoch"] = logs["epoch"]
            values.update(self._since_last_log(args, train_dataset))
        new = {
            tag: value
            for tag, value in values.items()
            if isinstance(value, numbers.Real) and state.global_step > self._last_steps.get(tag, -1)
        }
        self._last_steps |= dict.fromkeys(new, state.global_step)
        self._write(new, args, state)

    def on_train_end(self, args, state, control, **kwargs):
        """Finish what is written."""
        self.close()

    @abstractmethod
    def _begin(self, args, state, settings: dict[str, dict]) -> None:
        """Open what is written to, and write the settings."""

    @abstractmethod
    def _write(self, values: dict[str, float], args, state) -> None:
        """Write numbers at ``state.global_step``; also before training, and after it."""

    @abstractmethod
    def _end(self) -> None:
        """Training ended, or never began; evaluations may follow."""

    def _finish(self):
        self._grad_norm = None
        self._patches.undo()
        self._end()

    def _since_last_log(self, args, train_dataset):
        num_steps = self.num_steps - self._logged_steps
        if num_steps == 0:  # as at the end of an epoch that the resumed checkpoint had all steps of
            return {}
        seconds, wait = self.seconds, 0.0
        slowest = None
        if self._meter is not None:
            wait = sum(self._meter.waited_seconds) / len(self._meter.waited_seconds)
            slowest = self._meter.stragglers.slowest
        rows = train_dataset.get_batch_size() * args.gradient_accumulation_steps * args.world_size * num_steps
        values = {
            "train/samples_per_second": rows / (seconds - self._logged_seconds),
            "train/communication_wait_seconds": (wait - self._logged_wait) / num_steps,
        }
        if self._work is not None:
            if self._meter is None:
                self._work.gathered([self._work.own()])
            speeds = self._work.numbers(seconds - self._logged_seconds, self._logged_work)
            values |= {f"train/{name}": value for name, value in speeds.items()}
            self._logged_work = self._work.of_ranks
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

        self._patches.replace(nn.utils, "clip_grad_norm_", clip_and_keep)


def _tag(name):
    split, _, rest = name.partition("_")
    return f"{split}/{rest}" if split in SPLITS else f"train/{name}"
