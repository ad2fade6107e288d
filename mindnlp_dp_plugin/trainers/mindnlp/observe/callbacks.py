"""What watches training, as callbacks of MindNLP's Trainer."""

from mindnlp.engine.callbacks import TrainerCallback

from mindnlp_dp_plugin.trainers.observe import stragglers, throughput, tracers


class Stopwatch(throughput.Stopwatch, TrainerCallback):
    """Counts optimizer steps and the time they take."""


class Meter(throughput.Meter, TrainerCallback):
    """A stopwatch that also measures how long ranks waited for each other."""


class StragglerMonitor(stragglers.StragglerMonitor, TrainerCallback):
    """Names ranks whose own work takes longer than the others'."""


class Tracers(tracers.Tracers, TrainerCallback):
    """Times the phases of a few steps, if a setting asks for it."""
