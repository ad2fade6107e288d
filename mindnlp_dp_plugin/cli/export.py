"""``mindnlp-dp export``: a trained model for MindSpore without MindNLP, or for Hugging Face's transformers."""

import os
from pathlib import Path

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.cli.predict import MODULE
from mindnlp_dp_plugin.command_line import option
from mindnlp_dp_plugin.job.variables import of_setting
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.recipes.checks import require_packages


@click.command(cls=launching.OnThisNode, options_metavar="[OPTIONS]")
@option(
    "--format",
    "kind",
    type=click.Choice(["mindir", "safetensors"]),
    required=True,
    help="mindir: a graph for mindspore.load; safetensors: a folder for Hugging Face's transformers.",
)
@option("--out", type=click.Path(), help="Where to. Default: model.mindir, or the folder huggingface, in RUN.")
@option("--batch", "batch_size", type=click.IntRange(min=1), default=1, show_default=True, help="Rows of the graph.")
@option("--max-length", type=click.IntRange(min=8), help="Tokens of the graph's rows. Default: as trained, else 128.")
@launching.log_dir
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
def export(run, kind, out, batch_size, max_length, log_dir):
    """Export the model that a recipe or a Trainer left in the folder RUN, and check what was written."""
    require_packages()
    from mindnlp_dp_plugin.recipes.exporting import make_request

    request = make_request(run, kind, out, batch_size, max_length)
    os.environ[of_setting("cpu_operators")] = "0"  # MindSpore traces its own operators only
    return launching.start([MODULE, "export", request], 1, backends.choose("auto"), log_dir)
