"""Takes the pictures of docs/: the terminal and the report of real trainings on 2 ranks, in English and in Chinese.

python docs/figures/make_pictures.py    # minutes; needs Chromium, and a Chinese font

The trainings are those of docs/homework.md and docs/homework.zh.md: the example, and the recipe on the page's data.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import pyte
from rich.cells import cell_len

FOLDER = Path(__file__).resolve().parent
DOCS = FOLDER.parent
REPOSITORY = DOCS.parent
COLUMNS, ROWS = 100, 26
CELL, LINE, MARGIN = 8.4, 19, 16
LANGUAGES = {"": "en_US.UTF-8", ".zh": "zh_CN.UTF-8"}
EXAMPLE = "mindnlp-dp run --nproc 2 examples/roberta_imdb/roberta_imdb.py"
STYLE = """
    text { font: 14px Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", "Microsoft YaHei", monospace;
           fill: #d4d8e0; white-space: pre; }
    .command { fill: #8fd18f; font-weight: bold; }"""


def run_in_terminal(command: str, folder: Path, locale: str) -> list[str]:
    """The last screen of a terminal in which a command ran."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    environment = {**os.environ, "LANG": locale, "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    for name in ("LC_ALL", "MINDNLP_DP_LANG"):
        environment.pop(name, None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", f"stty rows {ROWS} cols {COLUMNS}; {command}"],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    while chunk := read(ours):
        stream.feed(chunk)
    if process.wait():
        sys.exit("\n".join(screen.display))
    return [line.rstrip() for line in screen.display]


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the last process has closed its end
        return b""


def save_screen(command: str, screen: list[str], name: str) -> None:
    """An SVG without fonts of its own: each line is as wide as its cells, whatever font the reader has."""
    begin, *rest = command.splitlines()
    commands = [f"$ {begin}", *(f"  {line}" for line in rest)]
    lines = [*commands, "  ...", *screen[1:]]
    while not lines[-1]:
        lines.pop()
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    texts = "\n".join(
        f'  <text class="{"command" if row < len(commands) else "output"}"'
        f' x="{MARGIN + CELL * indent(line):g}" y="{MARGIN + LINE * (row + 0.75):g}"'
        f' textLength="{CELL * cell_len(line.strip()):.1f}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(line.strip(), quote=False)}</text>"
        for row, line in enumerate(lines)
        if line.strip()
    )
    (FOLDER / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">\n'
        f'  <style>{STYLE}\n  </style>\n  <rect width="100%" height="100%" rx="8" fill="#14171d"/>\n{texts}\n</svg>\n',
        encoding="utf-8",
    )


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def blocks_of_homework(suffix: str) -> tuple[str, str]:
    """The command that writes the data, and the one that trains on them."""
    blocks = re.findall(r"(?ms)^```bash\n(.*?)\n```", (DOCS / f"homework{suffix}.md").read_text(encoding="utf-8"))
    (data,) = [block for block in blocks if "hotels.csv" in block and block.startswith("python - ")]
    (train,) = [block for block in blocks if "--output-dir homework" in block]
    return data, train


def picture_report(report: Path, name: str) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("needs Chromium")
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless",
            "--no-sandbox",
            f"--user-data-dir={profile}",
            "--hide-scrollbars",
            "--window-size=1000,1420",
        ]
        subprocess.run([browser, *options, f"--screenshot={FOLDER / name}", report.as_uri()], check=True, timeout=120)


def main() -> None:
    for suffix, locale in LANGUAGES.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            shutil.copytree(REPOSITORY / "examples", folder / "examples")
            save_screen(EXAMPLE, run_in_terminal(EXAMPLE, folder, locale), f"run{suffix}.svg")
            data, train = blocks_of_homework(suffix)
            subprocess.run(["bash", "-c", data], cwd=folder, check=True)
            save_screen(train, run_in_terminal(train, folder, locale), f"recipe{suffix}.svg")
            picture_report(folder / "homework" / "report.html", f"report{suffix}.png")


if __name__ == "__main__":
    main()
