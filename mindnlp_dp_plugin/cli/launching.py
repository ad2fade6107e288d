"""What every command that starts ranks on this host is asked."""

from pathlib import Path

import click

from mindnlp_dp_plugin.config import BACKENDS
from mindnlp_dp_plugin.launch.logs import default_log_dir

nproc = click.option("--nproc", type=click.IntRange(min=1), required=True, help="Ranks on this host.")
backend = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    envvar="MINDNLP_DP_BACKEND",
    show_default=True,
    help="Who carries the gradients; auto: hccl on Ascend, on CPU mpi if installed, else mccl.",
)
log_dir = click.option(
    "--log-dir",
    type=click.Path(path_type=Path),
    default=default_log_dir,
    show_default="mindnlp_dp_logs/<time>",
    help="One log per rank.",
)
