"""``mindnlp-dp doctor``: would two ranks train here?"""

from pathlib import Path

import click
from rich.console import Console

from mindnlp_dp_plugin.command_line import Command, option
from mindnlp_dp_plugin.doctor import examine, memory
from mindnlp_dp_plugin.doctor.report import as_json, is_healthy, show
from mindnlp_dp_plugin.language import tr


@click.command(cls=Command)
@option("--json", "for_machines", is_flag=True, help="Print JSON instead of a table.")
@option("--memory", "model", metavar="MODEL", help="Show instead what training MODEL needs on each rank.")
@option("--nproc", "-n", type=click.IntRange(min=1), default=2, show_default=True, help="With --memory: ranks.")
@option("--batch", type=click.IntRange(min=1), default=8, show_default=True, help="With --memory: its rows.")
@option("--length", type=click.IntRange(min=1), default=128, show_default=True, help="With --memory: tokens.")
@option("--fp16", is_flag=True, help="With --memory: mixed precision.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
def doctor(for_machines, model, nproc, batch, length, fp16, script):
    """Examine this machine, and SCRIPT if given, and suggest a fix for each problem.

    Looks at packages, settings, cores, memory, ports and left-over processes; then two ranks sum numbers over each
    engine. Exits with 1 if training would fail, with 0 otherwise. SCRIPT is read, not run.

    With --memory: MODEL is a folder with a config.json, or a name. One gradient is taken with random weights, and a
    table shows what a rank needs with each zero_stage, and which cards are large enough.
    """
    if model:
        memory.show(memory.try_gradient(model, batch, length, fp16), nproc, batch, length)
        return 0
    with Console(stderr=True).status(tr("packages, settings, machine ...")) as status:
        findings = list(examine(script, announce=status.update))
    if for_machines:
        click.echo(as_json(findings))
    else:
        show(findings)
    return 0 if is_healthy(findings) else 1
