"""Show findings as a table, readable without colours, too, or as JSON."""

import json
from dataclasses import asdict

from rich.box import ASCII2
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindnlp_dp_plugin.doctor.finding import Finding, Level
from mindnlp_dp_plugin.language import Message, tr

STYLE = {Level.OK: "green", Level.WARNING: "bold yellow", Level.FAILURE: "bold red"}
WIDTH_OF_A_LOG = 120


def count(findings: dict[str, Finding], level: Level) -> int:
    """How many findings are of a level."""
    return sum(finding.level is level for finding in findings.values())


def as_json(findings: dict[str, Finding]) -> str:
    """``{"healthy": ..., "findings": [...]}``"""
    listed = [{"check": name, **asdict(finding)} for name, finding in findings.items()]
    return json.dumps({"healthy": not count(findings, Level.FAILURE), "findings": listed}, indent=2)


def console() -> Console:
    """The user's terminal, or a log of fixed width."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=WIDTH_OF_A_LOG)


def show(findings: dict[str, Finding]) -> None:
    """Print the table and a summary line."""
    table = Table(box=ASCII2, show_lines=True)
    for column in (tr("check"), "", tr("found, and a hint")):
        table.add_column(column, overflow="fold")
    for name, finding in findings.items():
        way_out = f"\n-> {finding.way_out}" if finding.way_out else ""
        level = Text(tr(finding.level.value), style=STYLE[finding.level])
        table.add_row(Text(tr(name)), level, Text(finding.found + way_out))
    failures, warnings = count(findings, Level.FAILURE), count(findings, Level.WARNING)
    summary = (
        Message("Training would fail here: {checks} checks, failures: {failures}, warnings: {warnings}.")
        if failures
        else Message("Two ranks train here: {checks} checks, failures: {failures}, warnings: {warnings}.")
    )
    where = console()
    where.print(table)
    where.print(tr(summary, checks=len(findings), failures=failures, warnings=warnings), highlight=False)
