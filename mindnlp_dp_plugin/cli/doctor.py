"""``mindnlp-dp doctor``: would two ranks train here, and on which cards?"""

import signal
from pathlib import Path

import click
from click.core import ParameterSource

from mindnlp_dp_plugin.command_line import Command, option
from mindnlp_dp_plugin.config import ZERO_STAGES
from mindnlp_dp_plugin.language import Message, tr

OF_MODELS = {"batch": "--batch", "length": "--length", "fp16": "--fp16"}
OF_MEMORY = {"nproc": "--nproc", "zero": "--zero", **OF_MODELS}
OF_CHECKS = {"for_machines": "--json", "script": "SCRIPT"}


@click.command(cls=Command)
@option("--json", "for_machines", is_flag=True, help="Print JSON instead of a table.")
@option("--memory", "trained", metavar="MODEL_OR_SCRIPT", help="Show instead what training it needs on each rank.")
@option("--nproc", "-n", type=click.IntRange(min=1), default=2, show_default=True, help="With --memory: ranks.")
@option("--zero", type=click.Choice([*map(str, ZERO_STAGES)]), help="With --memory: this zero_stage alone.")
@option("--batch", type=click.IntRange(min=1), default=8, show_default=True, help="With --memory MODEL: its rows.")
@option("--length", type=click.IntRange(min=1), default=128, show_default=True, help="With --memory MODEL: tokens.")
@option("--fp16", is_flag=True, help="With --memory MODEL: mixed precision.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.pass_context
def doctor(ctx, for_machines, trained, nproc, zero, batch, length, fp16, script):
    """Examine this machine, and SCRIPT if given, and suggest a fix for each problem.

    Looks at packages, settings, cores, memory, ports and left-over processes; then two ranks sum numbers over each
    engine. Exits with 1 if training would fail, with 0 otherwise. SCRIPT is read, not run.

    With --memory: MODEL is a folder with a config.json, or a name; its weights are random. A SCRIPT is run until it
    calls Trainer.train(), and says the rest. A few steps are made without the optimizer. A table shows what a rank
    needs with each zero_stage, and which cards are large enough.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # by which temporary folders go
    if trained:
        from mindnlp_dp_plugin.doctor import memory  # here and below: --help of any command imports this module

        _refuse(ctx, OF_CHECKS, Message("{options} does not go with --memory: choose one of them."))
        is_script = Path(trained).is_file() or trained.endswith(".py")
        if is_script:
            _refuse(ctx, OF_MODELS, Message("{options} is for a model: the script given to --memory says it itself."))
        example = [*memory.EXAMPLE, trained, f"{batch}x{length}", *(["fp16"] if fp16 else [])]
        memory.show([trained] if is_script else example, nproc, None if zero is None else int(zero))
        return 0
    _refuse(ctx, OF_MEMORY, Message("{options} needs --memory MODEL_OR_SCRIPT: without it this machine is examined."))
    from rich.console import Console

    from mindnlp_dp_plugin.doctor import Level, examine
    from mindnlp_dp_plugin.doctor.report import as_json, count, show

    with Console(stderr=True).status(tr("packages, settings, machine ...")) as status:
        findings = dict(examine(script, announce=status.update))
    if for_machines:
        click.echo(as_json(findings))
    else:
        show(findings)
    return 1 if count(findings, Level.FAILURE) else 0


def _refuse(ctx, options, why):
    """Raise if any of the options was given."""
    given = [
        name
        for parameter, name in options.items()
        if ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(tr(why, options=", ".join(given)))
