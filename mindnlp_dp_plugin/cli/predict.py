"""``mindnlp-dp predict``: classes, tags, numbers or answers for texts, by a model that a recipe trained."""

import json
import tempfile
from pathlib import Path

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.command_line import option
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.recipes.checks import require_packages

MODULE = "mindnlp_dp_plugin.recipes"


@click.command(cls=launching.OnThisNode, options_metavar="[OPTIONS]")
@option("--out", type=click.Path(dir_okay=False), help="File for the predictions: .csv, .jsonl, .parquet or .xlsx.")
@launching.nproc(default=1, show_default=True)
@option("--batch", "batch_size", type=click.IntRange(min=1), default=32, show_default=True, help="Rows per batch.")
@option("--all-probabilities", is_flag=True, help="Also write the probability of each class.")
@option("--max-new-tokens", type=click.IntRange(min=1), help="Longest answer of a language model. Default: 64.")
@option("--text-column", multiple=True, help="Text column of FILE; twice for pairs. Default: as trained, or by name.")
@option("--label-column", help="Label column of FILE, for scores. Default: as trained.")
@option("--encoding", help="Encoding of FILE, such as gb18030. Default: detected.")
@launching.backend
@launching.log_dir
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("inputs", nargs=-1, required=True, metavar="TEXT...|FILE")
def predict(nproc, backend, log_dir, run, inputs, text_column, label_column, encoding, **how):
    """Predict for texts with the model that a recipe left in the folder RUN.

    Give texts (for pairs: the two of each in turn), or a FILE of any kind a recipe reads. If the file has labels, it is
    scored. Predictions are the same on any number of ranks.
    """
    require_packages()
    from mindnlp_dp_plugin.recipes.request import make_request

    request = make_request(run, inputs, text_column, label_column, encoding, **how)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "request.json")
        path.write_text(json.dumps(request), encoding="utf-8")
        return launching.start([MODULE, "predict", str(path)], nproc, backends.choose(backend), log_dir)
