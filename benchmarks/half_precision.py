"""``fp16=True`` beside float32: what tiny models of many families end at, and the memory that activations take.

    python benchmarks/half_precision.py [--steps 200] [CASE ...]

A CASE is ``bert/masked_lm``. Losses and bytes do not depend on how busy the machine is: each core takes a case. After
each it writes ``benchmarks/results/half-precision_<cpu>_<date>.json`` and ``.md``. Ends with 1 if a family ends further
than 2% from float32.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from mindnlp_dp_plugin.job.hardware import usable_cores
from tests.harness import run, run_ranks

CASES = (
    *("albert/masked_lm", "bart/seq2seq_lm", "bert/masked_lm", "bloom/causal_lm", "convbert/masked_lm"),
    *("deberta/masked_lm", "deberta_v2/sequence_classification", "distilbert/question_answering", "electra/masked_lm"),
    *("ernie/token_classification", "falcon/causal_lm", "funnel/masked_lm", "gemma/causal_lm", "gpt2/causal_lm"),
    *("gpt_neo/causal_lm", "llama/causal_lm", "mamba/causal_lm", "mbart/seq2seq_lm", "mistral/causal_lm"),
    *("mobilebert/masked_lm", "opt/causal_lm", "pegasus/seq2seq_lm", "phi/causal_lm", "qwen2/causal_lm"),
    *("roberta/multiple_choice", "squeezebert/masked_lm", "t5/seq2seq_lm", "xlm_roberta/masked_lm", "xlnet/causal_lm"),
)
ALLOWED = 0.02
SECONDS_FOR_CASE = 1800
PRECISIONS = ("float32", "fp16")
OPERATORS = {"the plugin's operators": {}, "MindNLP's operators": {"MINDNLP_DP_CPU_OPERATORS": "0"}}


def loss_of(case, num_steps):
    """What a family ended with, in a job of its own: a failure within a gradient leaves MindSpore unfit for more."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            finished = run_ranks(
                "half_families.py", folder, num_steps, case,
                ranks=1, backend="auto", log_dir=Path(folder, "logs"), timeout=SECONDS_FOR_CASE,
            )  # fmt: skip
            outcome = {"error": f"{finished.stdout[-500:]}\n{finished.stderr[-500:]}"}
        except subprocess.TimeoutExpired:
            outcome = {"error": "hangs"}
        for line in Path(folder, "losses.jsonl").read_text().splitlines():
            outcome = json.loads(line)
    passed = "error" not in outcome and abs(outcome["fp16"] / outcome["float32"] - 1) <= ALLOWED
    return {**outcome, "passed": passed}


def memory():
    """Peaks of memory for each kind of operators and precision."""
    found = {}
    for operators, environ in OPERATORS.items():
        for precision in PRECISIONS:
            program = Path(__file__).parent / "programs/activation_memory.py"
            with tempfile.TemporaryDirectory() as folder:
                finished = run([sys.executable, program, precision], timeout=1200, env=environ, cwd=folder)
            assert finished.returncode == 0, finished.stderr
            line = next(line for line in finished.stdout.splitlines() if line.startswith('{"weights"'))
            found[f"{operators}, {precision}"] = json.loads(line)
    return found


def report(num_steps, losses, bytes_of):
    passed = sum(outcome["passed"] for outcome in losses.values())
    rows = [
        f"| {case} | {outcome['error'].splitlines()[0]} | | | | |" if "error" in outcome else
        f"| {case} | {outcome['first']:.3f} | {outcome['float32']:.4f} | {outcome['fp16']:.4f} | "
        f"{outcome['fp16'] / outcome['float32'] - 1:+.2%} | {outcome['skipped']} |"
        for case, outcome in losses.items()
    ]  # fmt: skip
    grown = {name: (run["peaks"]["64"] - run["peaks"]["32"]) / 2**20 for name, run in bytes_of.items()}
    memory_rows = [
        f"| {operators} | {grown[f'{operators}, float32']:.0f} | {grown[f'{operators}, fp16']:.0f} | "
        f"{grown[f'{operators}, fp16'] / grown[f'{operators}, float32']:.2f} |"
        for operators in OPERATORS
    ]
    return "\n".join(
        [
            f"{passed} of {len(losses)} families end within {ALLOWED:.0%} of float32's loss after {num_steps} steps of "
            "AdamW (mean over the last epoch of 8 steps).",
            "",
            "| family | first loss | float32 | fp16 | difference | steps skipped |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            "BERT, 8 layers of 256, 32 rows: MB by which the peak of resident memory grows from rows of 32 words to "
            "rows of 64, which is activations.",
            "",
            "| | float32 | fp16 | ratio |",
            "| --- | --- | --- | --- |",
            *memory_rows,
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=CASES)
    parser.add_argument("--steps", type=int, default=200)
    wanted = parser.parse_args()
    bytes_of, losses = memory(), {}
    with ThreadPoolExecutor(usable_cores()) as cores:
        outcomes = cores.map(partial(loss_of, num_steps=wanted.steps), wanted.case)
        for case, outcome in zip(wanted.case, track(outcomes, "half precision", total=len(wanted.case))):
            losses[case] = outcome
            results = {"losses": losses, "memory": bytes_of}
            summary = report(wanted.steps, losses, bytes_of)
            write_results("half-precision", results, summary, shows=len(losses) == len(wanted.case))
    sys.exit(not all(outcome["passed"] for outcome in losses.values()))


if __name__ == "__main__":
    main()
