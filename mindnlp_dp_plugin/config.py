"""Settings: fields of a dataclass, and ``MINDNLP_DP_<FIELD>`` in the environment."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import of_setting, require_known
from mindnlp_dp_plugin.language import LANGUAGES, Message
from mindnlp_dp_plugin.language import VARIABLE as LANGUAGE

BACKENDS = ("auto", *ENGINES)
COMM_DTYPES = ("float32", "float16", "bfloat16")
AVERAGES = ("auto", "ranks")
ZERO_STAGES = (0, 1, 2, 3)
LONGEST_TIMEOUT = 2**31  # 68 years; more would not fit 32 bits
MEASURED = "measured"
MOST_TFLOPS = 1e9
LONGEST_SKIP, MOST_PROFILED = 10**6, 100
SWITCH_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


class Kind(NamedTuple):
    """The values that a field accepts.

    Attributes:
        accepts: Whether a value is one of them.
        parse: Turns the text of an environment variable into a value; raises ValueError or KeyError if it cannot.
        refusal: The error for another value, with the fields ``name`` and ``value``: what is wrong, and what to give.
        text: What the text of an environment variable must be.
        known: Further fields of both.
    """

    accepts: Callable[[Any], bool]
    parse: Callable[[str], Any]
    refusal: Message
    text: Message = Message("{variable}={text!r} is not understood: give a text.")
    known: Mapping[str, Any] = {}


def _one_of(choices):
    return Kind(
        lambda v: isinstance(v, str) and v in choices,
        str,
        Message("{name}={value!r} is not known: choose one of {choices}."),
        known={"choices": ", ".join(choices)},
    )


def _number(accepts, refusal, **known):
    return Kind(
        lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and accepts(v),
        float,
        refusal,
        Message("{variable}={text!r} is not understood: give a number."),
        known,
    )


def _whole_number(accepts, refusal):
    return Kind(
        lambda v: isinstance(v, int) and not isinstance(v, bool) and accepts(v),
        int,
        refusal,
        Message("{variable}={text!r} is not understood: give a whole number."),
    )


def _switch():
    return Kind(
        lambda value: isinstance(value, bool),
        lambda text: SWITCH_WORDS[text.lower()],
        Message("{name}={value!r} is not a switch: give True or False."),
        Message("{variable}={text!r} is not understood: give one of {words}."),
        {"words": ", ".join(SWITCH_WORDS)},
    )


def _switch_or_number():
    return Kind(
        lambda value: isinstance(value, bool) or (isinstance(value, int) and value > 1),
        lambda text: int(text) if text.isdecimal() and int(text) > 1 else SWITCH_WORDS[text.lower()],
        Message("{name}={value!r} is not understood: give True, False, or the number of micro-batches of a step."),
        Message("{variable}={text!r} is not understood: give one of {words}, or the micro-batches of a step."),
        {"words": ", ".join(SWITCH_WORDS)},
    )


def _peak():
    return Kind(
        lambda v: v == MEASURED if isinstance(v, str) else type(v) in (int, float) and 0 < v < MOST_TFLOPS,
        lambda text: text if text == MEASURED else float(text),
        Message(
            "{name}={value!r} is not a peak: give the peak of a device in TFLOPS (1e12 floating point operations a "
            "second), measured to time a product on this machine, or None for the known peak of the device."
        ),
        Message("{variable}={text!r} is not understood: give TFLOPS, such as 313, or measured."),
    )


def _steps_to_profile():
    return Kind(
        lambda v: (
            isinstance(v, tuple)
            and list(map(type, v)) == [int, int]
            and 0 <= v[0] <= LONGEST_SKIP
            and 0 < v[1] <= MOST_PROFILED
        ),
        lambda text: tuple(map(int, text.split(","))),
        Message(
            "{name}={value!r} is not understood: give the optimizer steps to skip and those to profile, at most "
            "{most}, such as (3, 4); None for no profile."
        ),
        Message("{variable}={text!r} is not understood: give steps to skip and to profile, such as 3,4."),
        {"most": MOST_PROFILED},
    )


def _or_none(kind):
    return kind._replace(accepts=lambda value: value is None or kind.accepts(value))


def _option(default, kind):
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class DataParallelConfig:
    """How the plugin trains: one field for each setting, however many these are.

    Attributes:
        backend: The kind of engine that runs the collectives: ``"hccl"`` (Ascend), ``"mccl"`` (CPU) or ``"mpi"``
            (CPU). ``"auto"`` takes the one that fits the device and the launcher.
        bucket_cap_mb: Size in MB (2**20 bytes) at which a bucket of gradients is full and its all-reduce starts.
            0 gives each parameter its own bucket. None takes the engine's default: 4 for MPI, 25 otherwise.
        comm_dtype: The dtype in which gradients are sent. ``"float16"`` and ``"bfloat16"`` halve the bytes, and round
            each gradient and each sum of two ranks to 11 and 8 bits; float16 loses numbers below 6e-8. For slow links.
        cpu_tuning: Whether each rank is pinned to its cores, and MindSpore launches operators synchronously, in one
            process too. Never done on Ascend.
        cpu_operators: Whether models on the CPU use faster operators than MindNLP calls (see ``cpu_operators``), also
            in one process. Results differ by rounding only.
        timeout: Seconds a rank may wait in a collective before the job ends and shows every rank's stack.
        profile: Optimizer steps to skip and to profile: ``(3, 4)`` profiles the fourth to the seventh, into the folder
            ``profile`` of ``output_dir`` (see ``trainers.observe.profile``); None for no profile.
        peak_tflops: What a rank's device can compute at most, in 1e12 floating point operations a second, for the
            utilisation of the model's FLOPS (MFU). ``"measured"``: what a product of two matrices takes here. None:
            what is known of the device; of a CPU nothing.
        resume: Whether each ``train()`` goes on from the newest whole checkpoint in its ``output_dir``, if there is
            one.
        async_save: Whether rank 0 writes checkpoints while training goes on. What cannot be written is reported at the
            next checkpoint or at the end. Needs memory for what training changes meanwhile, at most the state's.
        check_replicas_every: When ranks compare a digest of what the optimizer steps; a difference ends the job. None:
            after the first optimizer step, before each checkpoint and at the end. A number: also every so many
            optimizer steps. 0: never.
        average_over: Which mean an optimizer step uses. ``"auto"``: that of one process with N times the batch: in each
            micro-step, ranks weigh by the number of their ``labels`` that are not -100, or of their rows; micro-steps
            are summed, as MindNLP does. ``"ranks"``: the mean of the ranks' means, whatever they count.
        zero_stage: What is sharded over the ranks, in the stages of ZeRO. 0: nothing. 1: the optimizer's states; each
            rank steps an equal part of all elements, then all gather the parameters. 2: also the averaged gradients,
            which are then gone from ``.grad``. 3: also the parameters, which are whole only in the module
            that computes. The result is that of 0 to the last bit.
        elastic_determinism: Whether a step's sums follow one order over its micro-batches, whatever ranks compute them:
            any number of ranks that divides these then trains the same model, to the last bit. True: a step is ranks
            times ``gradient_accumulation_steps`` micro-batches. A number: a step is so many, and
            ``gradient_accumulation_steps`` is set to each rank's share. Gradients are means over the micro-batches.
        dispatch_batches: Whether rank 0 alone reads the data and deals out the batches: for a source that can be read
            once, or whose order is its own. As accelerate's.
        train_apart: Whether ranks may train models of their own, in a loop of their own: a search that uses ranks as
            workers. Otherwise the first step on gradients that nobody averaged ends the job.
        fp16_initial_scale: What ``TrainingArguments(fp16=True)`` multiplies the loss by at first.
        fp16_growth_interval: After this many optimizer steps without overflow the factor doubles. An overflow skips the
            step and halves the factor.

    Raises:
        DataParallelError: If a field does not accept a value; the message names field, value and choices.

    Examples:
        >>> dp.install(dp.DataParallelConfig(bucket_cap_mb=25, average_over="ranks"))
    """

    backend: str = _option("auto", _one_of(BACKENDS))
    bucket_cap_mb: float | None = _option(
        None,
        _or_none(
            _number(
                lambda cap: 0 <= cap < 2**20,
                Message(
                    "{name}={value!r} is not a size in MB: give a number from 0 (a bucket for each parameter) to below "
                    "{limit}, or None for the engine's default."
                ),
                limit=2**20,
            )
        ),
    )
    comm_dtype: str = _option("float32", _one_of(COMM_DTYPES))
    cpu_tuning: bool = _option(True, _switch())
    cpu_operators: bool = _option(True, _switch())
    timeout: float = _option(
        1800,
        _number(
            lambda seconds: 0 < seconds < LONGEST_TIMEOUT,
            Message(
                "{name}={value!r} is not a time: give the seconds a collective may wait, more than 0 and below {limit}."
            ),
            limit=LONGEST_TIMEOUT,
        ),
    )
    profile: tuple[int, int] | None = _option(None, _or_none(_steps_to_profile()))
    peak_tflops: float | str | None = _option(None, _or_none(_peak()))
    resume: bool = _option(False, _switch())
    async_save: bool = _option(False, _switch())
    check_replicas_every: int | None = _option(
        None,
        _or_none(
            _whole_number(
                lambda every: every >= 0,
                Message(
                    "{name}={value!r} is not a number of optimizer steps: give 1 or more, 0 for never, or None for the "
                    "first step, checkpoints and the end."
                ),
            )
        ),
    )
    average_over: str = _option("auto", _one_of(AVERAGES))
    zero_stage: int = _option(
        0,
        _whole_number(
            lambda stage: stage in ZERO_STAGES, Message("{name}={value!r} is not a stage: choose 0, 1, 2 or 3.")
        ),
    )
    elastic_determinism: bool | int = _option(False, _switch_or_number())
    dispatch_batches: bool = _option(False, _switch())
    train_apart: bool = _option(False, _switch())
    fp16_initial_scale: float = _option(
        2.0**16,
        _number(
            lambda scale: 0 < scale < 2**64,
            Message("{name}={value!r} is not a factor for the loss: give a number above 0."),
        ),
    )
    fp16_growth_interval: int = _option(
        2000,
        _whole_number(
            lambda steps: steps > 0, Message("{name}={value!r} is not a number of optimizer steps: give 1 or more.")
        ),
    )

    def __post_init__(self):
        for option in fields(self):
            value, kind = getattr(self, option.name), option.metadata["kind"]
            if not kind.accepts(value):
                raise DataParallelError(kind.refusal, name=option.name, value=value, **kind.known)

    @property
    def micro_batches(self) -> int | None:
        """Micro-batches of a step, if ``elastic_determinism`` is their number."""
        return None if isinstance(self.elastic_determinism, bool) else self.elastic_determinism

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "DataParallelConfig":
        """The configuration set in the environment; other fields keep their defaults.

        Args:
            environ: The variables to read, ``os.environ`` if None.

        Raises:
            DataParallelError: If a ``MINDNLP_DP_<FIELD>`` has a wrong value, or there is no such field.
        """
        environ = os.environ if environ is None else environ
        if environ.get(LANGUAGE) and environ[LANGUAGE] not in LANGUAGES:
            raise DataParallelError(
                "{variable}={language!r} is not a language of the messages: choose {languages}.",
                variable=LANGUAGE,
                language=environ[LANGUAGE],
                languages=", ".join(LANGUAGES),
            )
        require_known(environ, [option.name for option in fields(cls)])
        values = {}
        for option in fields(cls):
            variable = of_setting(option.name)
            if text := environ.get(variable):
                kind = option.metadata["kind"]
                try:
                    values[option.name] = kind.parse(text)
                except (KeyError, ValueError):
                    raise DataParallelError(kind.text, variable=variable, text=text, **kind.known) from None
                try:
                    cls(**{option.name: values[option.name]})
                except DataParallelError as error:
                    raise DataParallelError("{variable}: {error}", variable=variable, error=error) from None
        return cls(**values)
