"""``mindnlp-dp doctor``: would two ranks train here?"""

from pathlib import Path

import click
from rich.console import Console

from mindnlp_dp_plugin.doctor import examine
from mindnlp_dp_plugin.doctor.report import as_json, is_healthy, show


@click.command()
@click.option("--json", "for_machines", is_flag=True, help="Print JSON instead of a table.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
def doctor(for_machines, script):
    """Examine this machine, and SCRIPT if given, and suggest a fix for each problem.

    Looks at packages, settings, cores, memory, ports and left-over processes; then two ranks sum numbers over each
    engine. Exits with 1 if training would fail, with 0 otherwise. SCRIPT is read, not run.
    """
    with Console(stderr=True).status("packages, settings, machine ...") as status:
        findings = list(examine(script, announce=status.update))
    if for_machines:
        click.echo(as_json(findings))
    else:
        show(findings)
    return 0 if is_healthy(findings) else 1
