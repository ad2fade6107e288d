"""How fast ranks trained together, for the report: rows, tokens, FLOPS, and what they waited for each other."""

from statistics import fmean, harmonic_mean

from mindnlp_dp_plugin.trainers.observe.tracker import Tracker


class Throughput(Tracker):
    """Keeps what trackers write of the ranks' speed; evaluations and saves do not count."""

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
        """Rows of a step, what is done in a second, seconds of a step, and how much of it ranks waited.

        Rank 0 knows it.
        """
        if not self._speeds:
            return {}
        speed, wait = harmonic_mean(self._speeds), fmean(self._waits)
        seconds = self._batch["global_batch"] / speed
        return {
            **self._batch,
            "steps": num_steps,
            "rows_per_second": speed,
            "seconds_per_step": seconds,
            "waiting": min(1.0, wait / seconds),
            **self._of_work,
        }
