"""Show findings as a table, readable without colours, too, or as JSON."""

import json

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindnlp_dp_plugin.doctor.finding import Finding, Level
from mindnlp_dp_plugin.language import Message, tr

LEVELS = {Level.OK: Message("ok"), Level.WARNING: Message("warning"), Level.FAILURE: Message("failure")}
STYLE = {Level.OK: "green", Level.WARNING: "bold yellow", Level.FAILURE: "bold red"}
WIDTH_OF_A_LOG = 120


def is_healthy(findings: list[Finding]) -> bool:
    """Whether nothing failed."""
    return all(finding.level is not Level.FAILURE for finding in findings)


def as_json(findings: list[Finding]) -> str:
    """``{"healthy": ..., "findings": [...]}``"""
    return json.dumps(
        {"healthy": is_healthy(findings), "findings": [finding.as_dict() for finding in findings]}, indent=2
    )


def show(findings: list[Finding]) -> None:
    """Print the table and a summary line."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_LOG)
    table = Table(box=ASCII2, show_lines=True)
    for column in (tr("check"), "", tr("found, and a hint")):
        table.add_column(column, overflow="fold")
    for finding in findings:
        way_out = f"\n-> {finding.way_out}" if finding.way_out else ""
        level = Text(tr(LEVELS[finding.level]), style=STYLE[finding.level])
        table.add_row(Text(tr(finding.check)), level, Text(finding.found + way_out))
    console.print(table)
    console.print(_summary(findings), highlight=False)


def _summary(findings) -> str:
    failures, warnings = (
        sum(finding.level is level for finding in findings) for level in (Level.FAILURE, Level.WARNING)
    )
    known = {"checks": len(findings), "failures": failures, "warnings": warnings}
    if failures:
        return tr("Training would fail here: {checks} checks, failures: {failures}, warnings: {warnings}.", **known)
    return tr("Two ranks train here: {checks} checks, failures: {failures}, warnings: {warnings}.", **known)
