"""Options of ``mindnlp-dp run`` that a job takes as they were given. Each is declared here, and nowhere else."""

import os
from dataclasses import dataclass, field
from typing import Any

import click

from mindnlp_dp_plugin.config import MEASURED, DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import of_setting

PROFILED = "3,4"  # steps to skip, which compile and allocate; and steps to profile


class PeakTflops(click.ParamType):
    """A number of TFLOPS, or ``measured``."""

    name = "tflops or measured"

    def convert(self, value, param, ctx):
        """The setting."""
        if value == MEASURED:
            return value
        tflops = click.FLOAT.convert(value, param, ctx)
        try:
            return DataParallelConfig(peak_tflops=tflops).peak_tflops
        except DataParallelError as error:
            self.fail(str(error), param, ctx)


def _option(default: Any, name: str, **settings: Any) -> Any:
    return field(default=default, metadata={"name": name, "settings": settings})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a job was asked for: the help of each option says what its field means; it is made by ``cli/run.py``."""

    tee: str = _option("0", "--tee", type=click.Choice(["0", "all"]), show_default=True, help="The ranks to show.")
    max_restarts: int = _option(
        0,
        "--max-restarts",
        type=click.IntRange(min=0),
        show_default=True,
        help="How often all ranks may start again from the newest checkpoint of this job; the count begins anew when "
        "training gets further.",
    )
    resume: bool = _option(
        False,
        "--resume",
        is_flag=True,
        help="Go on from the newest whole checkpoint in each output_dir, if there is one: for jobs that are requeued.",
    )
    grace: float | None = _option(
        None,
        "--grace",
        type=click.FloatRange(min=0),
        help="Seconds that ranks have to end by themselves after SIGTERM, SIGUSR1 or SIGUSR2, which they also get. "
        "Default: 30; on Slurm, after SIGUSR1 or SIGUSR2, what is left of the job's time.",
    )
    profile: bool = _option(
        False,
        "--profile",
        is_flag=True,
        help="Profile the fourth to the seventh step, into the folder profile of output_dir.",
    )
    peak_tflops: float | str | None = _option(
        None,
        "--peak-tflops",
        type=PeakTflops(),
        help="Peak of a device in TFLOPS, for the MFU; measured: time a product of matrices. Default: the known peak "
        "of an Ascend card.",
    )

    def as_settings(self) -> dict[str, str]:
        """The variables by which ranks are told of them."""
        profiled = os.environ.get(of_setting("profile"), PROFILED)
        known = {
            "resume": self.resume and "1",
            "profile": self.profile and profiled,
            "peak_tflops": self.peak_tflops is not None and str(self.peak_tflops),
        }
        return {of_setting(name): value for name, value in known.items() if value}
