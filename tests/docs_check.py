"""Run every command and every piece of Python of the README and the docs, as a reader would: ``make docs-check``.

Shell blocks run as they stand, in a folder that holds a ``roberta.py``; the Python of a page runs as one script, on two
ranks, with ``model``, ``train_dataset``, ``eval_dataset``, ``predictions`` and ``labels`` at hand. A block that cannot
run here has a comment above it, ``<!-- not run here: why -->``, which is shown.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from tests.harness import REPOSITORY, run

PAGES = [*sorted(REPOSITORY.glob("README*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run here: (?P<reason>.*?) -->\n)?```(?P<language>bash|python)\n(?P<text>.*?)```", re.DOTALL
)
AT_HAND = """
import numpy as np
from tests.programs.tiny import tiny_dataset, tiny_model
model, train_dataset, eval_dataset = tiny_model(), tiny_dataset(), tiny_dataset(num_rows=24)
predictions, labels = np.zeros(3), np.zeros(3)
"""
ROBERTA = AT_HAND + "from tests.programs.tiny import tiny_trainer\ntiny_trainer('output', model).train()\n"


def check(page: Path) -> list[str]:
    """Run a page's blocks; returns what failed."""
    failures, script = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "roberta.py").write_text(ROBERTA)
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            line = page.read_text(encoding="utf-8")[: block.start()].count("\n") + 1
            place = f"{page.relative_to(REPOSITORY)}:{line}"
            if block["reason"]:
                print(f"{place}: not run: {block['reason']}")
            elif block["language"] == "bash":
                failures += report(
                    place, run(["bash", "-euo", "pipefail", "-c", block["text"]], cwd=folder, timeout=600)
                )
            else:
                script.append(block["text"])
        if script:
            (folder / "snippets.py").write_text(AT_HAND + "\n".join(script))
            command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 2, "snippets.py"]
            failures += report(f"{page.relative_to(REPOSITORY)}: Python", run(command, cwd=folder, timeout=600))
    return failures


def report(place, finished):
    print(f"{place}: {'failed' if finished.returncode else 'ok'}", flush=True)
    return [f"{place}:\n{finished.stdout}\n{finished.stderr}"] if finished.returncode else []


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    wanted = [Path(word).resolve() for word in sys.argv[1:]] or PAGES
    failed = [failure for page in wanted for failure in check(page)]
    sys.exit("\n\n".join(failed))
