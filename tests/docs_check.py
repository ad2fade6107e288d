"""Run every command and every piece of Python of the README and the docs, and every example: ``make docs-check``.

Shell blocks run as they stand, in a folder that holds a ``roberta.py``; the Python of a page runs as one script, on two
ranks, with ``model``, ``train_dataset``, ``eval_dataset``, ``predictions`` and ``labels`` at hand. A block that cannot
run here has a comment above it, ``<!-- not run here: why -->``, which is shown. A translation (``run.zh.md``) whose
blocks are those of the English page but for comments is not run again. Each example must print what it promises.

    python -m tests.docs_check README.md examples/by_feature/lora.py    # some of them
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from tests.harness import REPOSITORY, run

COMMAND = [sys.executable, "-m", "mindnlp_dp_plugin.cli"]
EXAMPLES_FOLDER = REPOSITORY / "examples"
PAGES = [*sorted(REPOSITORY.glob("README*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- not run here: (?P<reason>.*?) -->\n)?```(?P<language>bash|python)\n(?P<text>.*?)```", re.DOTALL
)
EXAMPLES = {  # what each must print
    "by_feature/accumulation.py": "3 optimizer steps of 64 rows",
    "by_feature/early_stopping.py": r"stopped at step \d+ of 40",
    "by_feature/length_grouping.py": r"batches from \d+ to \d+ tokens wide",
    "by_feature/lora.py": r"trained 12 of \d+ parameters and loaded the adapter",
    "by_feature/own_loop.py": r"epoch 3: accuracy (1\.0|0\.9)",
    "by_feature/own_metrics.py": r"macro F1 0\.\d+ over 500 rows\ngathered 10 rows",
    "by_feature/resume.py": "resumed, and ended at step 8",
    "roberta_imdb/roberta_imdb.py": r"(?s)accuracy 0\.[89]\d+ on 500 test rows\n.*good  The plot.*\nbad   The acting",
}
AT_HAND = """
import numpy as np
from tests.programs.tiny import tiny_dataset, tiny_model
model, train_dataset, eval_dataset = tiny_model(), tiny_dataset(), tiny_dataset(num_rows=24)
predictions, labels = np.zeros(3), np.zeros(3)
"""
ROBERTA = AT_HAND + "from tests.programs.tiny import tiny_trainer\ntiny_trainer('output', model).train()\n"


def code_of(page: Path) -> list[str]:
    """A page's blocks, without comments."""
    return [re.sub(r" *#.*", "", block["text"]) for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def check(page: Path) -> list[str]:
    """Run a page's blocks; returns what failed."""
    source = page.with_name(page.name.replace(".zh.md", ".md"))
    if source != page and code_of(source) == code_of(page):
        print(f"{page.relative_to(REPOSITORY)}: as {source.name}")
        return []
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
            finished = run([*COMMAND, "run", "--nproc", 2, "snippets.py"], cwd=folder, timeout=600)
            failures += report(f"{page.relative_to(REPOSITORY)}: Python", finished)
    return failures


def check_example(script: Path) -> list[str]:
    """Run an example on two ranks; returns what failed."""
    wanted = EXAMPLES[str(script.relative_to(EXAMPLES_FOLDER))]
    with tempfile.TemporaryDirectory() as folder:
        finished = run([*COMMAND, "run", "--nproc", 2, script], cwd=Path(folder), timeout=600)
    if finished.returncode == 0 and not re.search(wanted, finished.stdout):
        finished.returncode, finished.stderr = 1, f"does not print: {wanted}"
    return report(script.relative_to(REPOSITORY), finished)


def report(place, finished):
    print(f"{place}: {'failed' if finished.returncode else 'ok'}", flush=True)
    return [f"{place}:\n{finished.stdout}\n{finished.stderr}"] if finished.returncode else []


if __name__ == "__main__":
    os.environ["MINDNLP_DP_LANG"] = "en"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    wanted = [Path(word).resolve() for word in sys.argv[1:]] or [*PAGES, *(EXAMPLES_FOLDER / name for name in EXAMPLES)]
    failed = [failure for file in wanted for failure in (check if file.suffix == ".md" else check_example)(file)]
    sys.exit("\n\n".join(failed) or None)
