"""Where results of benchmarks go: a file named after what was measured, the processor and the day."""

import json
import re
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write_results(name: str, data: dict[str, Any], summary: str) -> Path:
    """Write ``<name>_<cpu>_<date>.json``, and ``.md`` with the summary, which is printed, too.

    Returns:
        The path without its suffix.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}_{processor()}_{time.strftime('%Y-%m-%d')}"
    path.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    path.with_suffix(".md").write_text(f"# {path.name}\n\n{summary}\n")
    print(summary)
    return path


def processor() -> str:
    """The processor's name as a word."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2] for line in lines if line.startswith("model name")), "cpu")
    return re.sub(r"\W+", "-", model.strip().lower()).strip("-")
