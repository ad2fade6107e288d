"""Every model family of MindNLP, tiny, with each head it has: ``make families``.

    python benchmarks/families.py [--missing] [FAMILY ...]

For each family and head: no initial weight is left unset or wrongly constant; one process trains, a saved model is
loaded as it was, and MindNLP's own operators lead to the same parameters within rounding; 2 ranks end as one process
with twice the batch, and equal to each other to the last bit. What crashes or hangs is noted, and the rest goes on.
Writes ``benchmarks/results/families_<cpu>_<date>.json`` and ``.md``, and the table of ``docs/families.md`` and of its
translation. Ends with 1 if a head fails that passed when this ran last. Some ten minutes on two idle cores;
interrupted, it goes on with ``--missing``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.families_reasons import NOT_OF_TEXT, NOT_TINY, REASONS, REASONS_IN_CHINESE
from benchmarks.record import RESULTS, write_results
from tests.families.outcomes import difference, difference_of_ranks, journal, result
from tests.harness import REPOSITORY, run, run_ranks

PAGES = {"en": REPOSITORY / "docs/families.md", "zh": REPOSITORY / "docs/families.zh.md"}
TABLE_BEGINS = "<!-- written by benchmarks/families.py -->"
HEADS = (
    "sequence_classification",
    "regression",
    "multi_label",
    "token_classification",
    "question_answering",
    "masked_lm",
    "causal_lm",
    "seq2seq_lm",
    "multiple_choice",
)
CHUNK = 40  # heads in a process; results are written after as many
SECONDS_FOR_CHUNK, SECONDS_FOR_CASE = 90, 15
LIST_CASES = """
import json, mindnlp_dp_plugin
from tests.families.catalogue import cases, folders
print(json.dumps({folder: list(cases(folder)) for folder in folders()}))
"""


class Job:
    """Cases trained in one way, in as many processes as it takes.

    Attributes:
        outcomes: For each case how far it came, and the error if it did not come to the end.
        folders: For each case where its results are.
    """

    def __init__(self, output, ranks=1, checks="none", env=None):
        self.output, self.ranks, self.checks, self.env = output, ranks, checks, env
        self.outcomes, self.folders = {}, {}

    def train(self, cases):
        while rest := [case for case in cases if case not in self.outcomes]:
            self.train_until_one_fails(rest)

    def train_until_one_fails(self, cases):
        folder = Path(tempfile.mkdtemp(dir=self.output))
        try:
            finished = run_ranks(
                "train_families.py", folder, 2, self.checks, *cases,
                ranks=self.ranks, backend="auto", log_dir=folder / "logs", env=self.env,
                timeout=SECONDS_FOR_CHUNK + SECONDS_FOR_CASE * len(cases),
            )  # fmt: skip
            end = f"{finished.stdout[-500:]}\n{finished.stderr[-500:]}"
        except subprocess.TimeoutExpired:
            end = "hangs"
        journals = [journal(folder, rank) for rank in range(self.ranks)]
        for case in cases:
            of_ranks = [each.get(case) for each in journals]
            if not any(of_ranks):
                break
            failed = next((each for each in of_ranks if each and "error" in each), None)
            if failed is None and not all(each and each["stage"] == "done" for each in of_ranks):
                failed = {"stage": "crashed", "error": end}
            self.outcomes[case], self.folders[case] = failed or of_ranks[0], folder
        if not any(journals):
            raise RuntimeError(end)


def check(cases, output):
    """For each case: how far it came, and how far apart its ways of training ended."""
    one, stock = Job(output, checks="all"), Job(output, env={"MINDNLP_DP_CPU_OPERATORS": "0"})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: job.train(cases), (one, stock)))
    ranks = Job(output, ranks=2)
    ranks.train([case for case in cases if "after" in parts_of(one, case)])
    return {case: conclude(case, one, stock, ranks) for case in cases}


def parts_of(job, case):
    path = job.folders[case] / f"{case.replace('/', '.')}.rank0.npz"
    return result(job.folders[case], case) if path.exists() else {}


def conclude(case, one, stock, ranks):
    outcome = {"stage": one.outcomes[case]["stage"]}
    errors = {"alone": one.outcomes[case].get("error"), "stock": stock.outcomes[case].get("error")}
    if case in ranks.outcomes:
        errors["ranks"] = ranks.outcomes[case].get("error")
        if not errors["ranks"]:
            compare(outcome, errors, "ranks", difference_of_ranks, one.folders[case], ranks.folders[case], 2, case)
    if parts_of(one, case) and parts_of(stock, case):
        compare(outcome, errors, "stock", difference, parts_of(one, case), parts_of(stock, case))
    outcome["errors"] = {where: error for where, error in errors.items() if error}
    outcome["passed"] = not outcome["errors"]
    return outcome


def compare(outcome, errors, where, function, *arguments):
    try:
        outcome[f"{where}_differ_by"] = function(*arguments)
    except AssertionError as error:
        errors[where] = str(error)


def reason_of(case, language):
    reasons = REASONS if language == "en" else REASONS_IN_CHINESE
    return reasons.get(case) or reasons.get(case.partition("/")[0])


def table(results, language="en"):
    """A row for each family: which heads passed, which failed and for what reason."""
    families = sorted({case.partition("/")[0] for case in results})
    notes, rows = {}, []
    for family in families:
        cells = [cell(results.get(f"{family}/{head}"), f"{family}/{head}", notes, language) for head in HEADS]
        of_family = [result for case, result in results.items() if case.startswith(f"{family}/")]
        differences = [largest(of_family, name) for name in ("ranks_differ_by", "stock_differ_by")]
        rows.append(f"| {family} | " + " | ".join([*cells, *differences]) + " |")
    passed = [case for case, result in results.items() if result["passed"]]
    whole = sum(all(r["passed"] for case, r in results.items() if case.startswith(f"{f}/")) for f in families)
    summaries = {
        "en": f"{len(passed)} of {len(results)} heads pass, and all heads of {whole} of {len(families)} families.",
        "zh": f"{len(results)} 个任务头中通过 {len(passed)} 个，{len(families)} 个系列中 {whole} 个全部通过。",
    }
    lines = [
        summaries[language],
        "",
        "| family | " + " | ".join(head.replace("_", " ") for head in HEADS) + " | ranks | operators |",
        "| --- " * (len(HEADS) + 3) + "|",
        *rows,
        "",
        *(f"{number}. {note}" for note, number in notes.items()),
    ]
    return "\n".join(lines)


def cell(result, case, notes, language):
    if result is None:
        return ""
    if result["passed"]:
        return "✓"
    family, _, _ = case.partition("/")
    reason = reason_of(case, language) or "; ".join(
        f"{where}, {error.splitlines()[0]}" for where, error in result["errors"].items()
    )
    note = f"{family}: {reason}." if language == "en" else f"{family}：{reason}。"
    return f"[{notes.setdefault(note, len(notes) + 1)}]"


def largest(results, name):
    differences = [result[name] for result in results if name in result]
    return f"{max(differences):.0e}" if differences else ""


def list_cases():
    finished = run([sys.executable, "-c", LIST_CASES])
    assert finished.returncode == 0, finished.stderr
    return json.loads(next(line for line in finished.stdout.splitlines() if line.startswith("{")))


def latest_results():
    paths = sorted(RESULTS.glob("families_*.json"), key=lambda path: path.stem.rpartition("_")[2])
    return json.loads(paths[-1].read_text())["results"] if paths else {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", nargs="*")
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    wanted = parser.parse_args()
    left_out = {*NOT_TINY, *" ".join(NOT_OF_TEXT.values()).split()}
    heads = {family: heads for family, heads in list_cases().items() if heads and family not in left_out}
    before = latest_results()
    cases = [f"{family}/{head}" for head in HEADS for family in wanted.family or heads if head in heads[family]]
    cases = [case for case in cases if not (wanted.missing and case in before)]
    results = {case: result for case, result in before.items() if case.partition("/")[0] in heads}
    with tempfile.TemporaryDirectory() as output:
        for begin in range(0, len(cases), CHUNK):
            results |= check(cases[begin : begin + CHUNK], Path(output))
            write_results("families", {"results": results}, table(results))
            for language, page in PAGES.items():
                prose = page.read_text().partition(TABLE_BEGINS)[0]
                page.write_text(f"{prose}{TABLE_BEGINS}\n\n{table(results, language)}\n")
    worse = [case for case in cases if before.get(case, {}).get("passed") and not results[case]["passed"]]
    for case in worse:
        print(f"{case} passed before: {results[case]['errors']}")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
