"""``mindnlp-dp recipe``: a ready training on N ranks."""

from dataclasses import replace
from pathlib import Path

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.command_line import Group, option
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.options import PeakTflops
from mindnlp_dp_plugin.recipes.checks import check, require_packages
from mindnlp_dp_plugin.recipes.registry import RECIPES

MODULE = "mindnlp_dp_plugin.recipes"
NARROW = 21


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def recipe(context):
    """A ready training: from texts with labels to a model and a report."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class RecipeCommand(launching.OnThisNode):
    """A recipe's command. Its options are those of its task, which is imported when they are asked for."""

    @property
    def params(self) -> list[click.Parameter]:
        """Those of the command, ``--config``, and those of the task."""
        if self._all is None:
            defaults = _defaults(self.name)
            from mindnlp_dp_plugin.recipes.options import parameters

            self._all = [*self._own, *parameters(defaults, RECIPES[self.name].task or self.name)]
        return self._all

    @params.setter
    def params(self, params):
        self._own, self._all = params, None

    def format_options(self, ctx, formatter):
        """Write them with a narrow first column: there are many."""
        with formatter.section(tr("Options")):
            formatter.write_dl(list(filter(None, (each.get_help_record(ctx) for each in self.get_params(ctx)))), NARROW)


def add_recipe(name: str) -> None:
    """Makes ``mindnlp-dp recipe <name>``."""

    @recipe.command(name, cls=RecipeCommand, help=RECIPES[name].summary)
    @launching.nproc(required=True)
    @launching.backend
    @launching.log_dir
    @option("--profile", is_flag=True, help="Profile a few steps, into checkpoints/profile.")
    @option(
        "--peak-tflops", type=PeakTflops(), help="What a device can compute at most, in TFLOPS; measured: by a product."
    )
    @option("--prove", is_flag=True, help="Prove that the ranks train as one: ten steps of each, without dropout.")
    def run(nproc, backend, log_dir, profile, peak_tflops, prove, **values):
        options = replace(_defaults(name), **values)
        if options.dataset is None and RECIPES[name].model is None:
            raise click.UsageError(tr("Missing option '--dataset'."))
        DataParallelConfig.from_env()
        engine = backends.choose(backend)
        task = RECIPES[name].task or name
        check(options, nproc, task, prove)
        if prove:
            from mindnlp_dp_plugin.recipes import proof

            return proof.prove(options, task, nproc, engine, log_dir)
        asked = {"profile": profile, "peak_tflops": peak_tflops}
        return launching.start([MODULE, "train", options.to_json(), task], nproc, engine, log_dir, **asked)


def _defaults(name):
    """The options of a recipe where none is given."""
    require_packages()
    from mindnlp_dp_plugin.recipes.tasks import get_task

    output_dir = Path(f"{name.replace('-', '_')}_output")
    return get_task(RECIPES[name].task or name).options(output_dir=output_dir, model=RECIPES[name].model)


for name in RECIPES:
    add_recipe(name)
