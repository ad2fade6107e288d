"""What a user may set, in code or as ``MINDNLP_DP_<FIELD>`` in the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from mindnlp_dp_plugin.errors import DataParallelError

ENVIRONMENT_PREFIX = "MINDNLP_DP_"
BACKENDS = ("auto", "hccl", "mccl", "mpi")
COMM_DTYPES = ("float32", "float16", "bfloat16")
AVERAGES = ("ranks", "micro_steps", "samples", "tokens")
LONGEST_TIMEOUT = 2**31  # 68 years; more would not fit 32 bits
SWITCH_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


@dataclass(frozen=True)
class DataParallelConfig:
    """How the plugin trains.

    Attributes:
        backend: Who carries the collectives: ``"hccl"`` (Ascend), ``"mccl"`` (CPU) or ``"mpi"`` (CPU);
            ``"auto"`` takes the one that fits how the process was started.
        bucket_cap_mb: Size in MB (2**20 bytes) at which a bucket of gradients is full and its all-reduce starts.
            0 gives every parameter a bucket of its own. None takes the engine's default: 4 for MPI, 25 otherwise.
        comm_dtype: What gradients travel as. ``"float16"`` and ``"bfloat16"`` halve the bytes, and round each gradient
            and each sum of two ranks to 11 and 8 bits; float16 drops what is below 6e-8. For slow links.
        cpu_tuning: Whether ``mindnlp-dp run`` pins each rank to its cores and sets MindSpore's runtime for them.
            Never done on Ascend.
        cpu_operators: Whether models on the CPU compute through operators that are faster than those MindNLP calls
            (see ``operators``), alone too. The same mathematics: results differ by rounding alone.
        timeout: Seconds a rank may wait in a collective before the job is ended with every rank's stack.
        trace: File for a trace of a few steps of all ranks (see ``tracing``); none is made if None.
        check_replicas_every: After every so many optimizer steps, all ranks compare a digest of their parameters, and
            the job ends if they differ. 0 never does.
        average_over: Which mean an optimizer step is made with. ``"ranks"``: over the ranks' means, and summed over
            micro-steps, as MindNLP does; one process with N times the batch. ``"micro_steps"``: also divided by their
            number, as the Hugging Face Trainer does; one process with N times the batch times the accumulation, and
            none. ``"samples"``, ``"tokens"``: each rank's micro-step weighs as many rows, or labels that are not -100,
            as it has; the same one process, for losses that are means over those, with uneven batches too.

    Raises:
        DataParallelError: For a value that a field cannot take; the message names field, value and choices.
    """

    backend: str = "auto"
    bucket_cap_mb: float | None = None
    comm_dtype: str = "float32"
    cpu_tuning: bool = True
    cpu_operators: bool = True
    timeout: float = 1800
    trace: str | None = None
    check_replicas_every: int = 0
    average_over: str = "ranks"

    def __post_init__(self):
        for name, choices in (("backend", BACKENDS), ("comm_dtype", COMM_DTYPES), ("average_over", AVERAGES)):
            if not _is_one_of(choices, getattr(self, name)):
                raise DataParallelError(
                    f"{name}={getattr(self, name)!r} is not known: choose one of {', '.join(choices)}."
                )
        cap = self.bucket_cap_mb
        if cap is not None and (isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 <= cap < 2**20):
            raise DataParallelError(
                f"bucket_cap_mb={cap!r} is not a size in MB: give a number from 0 (a bucket for each parameter) "
                f"to below {2**20}, or None for the engine's default."
            )
        for switch in ("cpu_tuning", "cpu_operators"):
            if not isinstance(getattr(self, switch), bool):
                raise DataParallelError(f"{switch}={getattr(self, switch)!r} is not a switch: give True or False.")
        seconds = self.timeout
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < LONGEST_TIMEOUT:
            raise DataParallelError(
                f"timeout={seconds!r} is not a time: give the seconds a collective may wait, more than 0 and below "
                f"{LONGEST_TIMEOUT}."
            )
        trace = self.trace
        if trace is not None and not (isinstance(trace, (str, os.PathLike)) and str(trace) and "\0" not in str(trace)):
            raise DataParallelError(f"trace={trace!r} is not a file: give its path, or None for no trace.")
        every = self.check_replicas_every
        if isinstance(every, bool) or not isinstance(every, int) or every < 0:
            raise DataParallelError(
                f"check_replicas_every={every!r} is not a number of optimizer steps: give 1 or more, or 0 for never."
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "DataParallelConfig":
        """The configuration that the environment asks for; fields it does not name keep their defaults.

        Args:
            environ: The variables to read, ``os.environ`` if None.

        Raises:
            DataParallelError: For a ``MINDNLP_DP_<FIELD>`` whose text is no value of that field.
        """
        environ = os.environ if environ is None else environ
        parsers = {
            "backend": str,
            "bucket_cap_mb": float,
            "comm_dtype": str,
            "cpu_tuning": lambda text: SWITCH_WORDS[text.lower()],
            "cpu_operators": lambda text: SWITCH_WORDS[text.lower()],
            "timeout": float,
            "trace": str,
            "check_replicas_every": int,
            "average_over": str,
        }
        numbers = {float: "a number", int: "a whole number"}
        values = {}
        for field in fields(cls):
            variable = ENVIRONMENT_PREFIX + field.name.upper()
            if text := environ.get(variable):
                try:
                    values[field.name] = parsers[field.name](text)
                except (KeyError, ValueError):
                    kind = numbers.get(parsers[field.name], f"one of {', '.join(SWITCH_WORDS)}")
                    raise DataParallelError(f"{variable}={text!r} is not understood: give {kind}.") from None
                try:
                    cls(**{field.name: values[field.name]})
                except DataParallelError as error:
                    raise DataParallelError(f"{variable}: {error}") from None
        return cls(**values)


def _is_one_of(choices, value):
    return isinstance(value, str) and value in choices
