"""Where results of benchmarks go: files named after what was measured, the hardware and the day."""

import json
import os
import re
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write_results(name: str, data: dict[str, Any], summary: str, shows: bool = True) -> Path:
    """Write ``<name>_<hardware>_<date>.json``, and ``.md`` with the summary, which is printed, too, if it ``shows``.

    Both begin with the command that made them.

    Returns:
        The path without its suffix.
    """
    path = results_file(name, ".json")
    here = f"{RESULTS.parents[1]}/"  # where this checkout lies is of no interest
    command = shlex.join(["python", *(word.removeprefix(here) for word in sys.argv)])
    path.write_text(json.dumps({"command": command, **data}, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(f"# {path.stem}\n\n`{command}`\n\n{summary}\n", encoding="utf-8")
    if shows:
        print(summary)
    return path.with_suffix("")


def results_file(name: str, suffix: str) -> Path:
    """``results/<name>_<hardware>_<date><suffix>``."""
    RESULTS.mkdir(exist_ok=True)
    return RESULTS / f"{name}_{hardware()}_{date.today()}{suffix}"


def hardware() -> str:
    """Cores and processor, as a word; some clouds name all generations alike, so its family and model follow."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    words = [facts.get("model name", "cpu"), facts.get("cpu family", ""), facts.get("model", "")]
    return f"{len(os.sched_getaffinity(0))}x-" + re.sub(r"\W+", "-", " ".join(words).lower()).strip("-")
