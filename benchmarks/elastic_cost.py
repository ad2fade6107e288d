"""What ``elastic_determinism`` costs beside a step of BERT-base without it, on 2 ranks.

    mindnlp-dp run --nproc 2 benchmarks/elastic_cost.py

Steps are timed with and without it by turns, with one and with two micro-batches on each rank. Rank 0 writes
``benchmarks/results/elastic-cost_<hardware>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import gc
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mindnlp_dp_plugin as dp  # isort: skip

from mindnlp.engine import Trainer, TrainingArguments
from rich.progress import track

from benchmarks.programs import models
from benchmarks.programs.clock import Clock
from benchmarks.record import write_results
from mindnlp_dp_plugin import collectives
from tests.programs.any_number_of_ranks import count_bytes

MODEL, ROUNDS, STEPS, WARM_UP = "bert-base", 3, 3, 1
WITHOUT, WITH = {}, {"elastic_determinism": True}


def main():
    cases = {(accumulation, name): settings
             for accumulation in (1, 2) for name, settings in (("without", WITHOUT), ("with", WITH))}  # fmt: skip
    seconds, sent = {case: [] for case in cases}, {}
    model = models.make(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        for _ in track(range(ROUNDS), "rounds", disable=not dp.is_main_process()):
            for case, settings in cases.items():
                taken, sent[case] = train(model, Path(folder), case[0], settings)
                seconds[case] += taken
    if not dp.is_main_process():
        return
    medians = {case: statistics.median(taken) for case, taken in seconds.items()}
    lines = ["| micro-batches of a rank | without | with | ratio | MB a rank gives to collectives in a step |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for accumulation in (1, 2):
        without, elastic = medians[accumulation, "without"], medians[accumulation, "with"]
        size = " / ".join(f"{sent[accumulation, name] / 2**20:.0f}" for name in ("without", "with"))
        lines.append(f"| {accumulation} | {without:.3f} s | {elastic:.3f} s | {elastic / without:.3f} | {size} |")
    data = {f"{name} {accumulation}": taken for (accumulation, name), taken in seconds.items()}
    write_results("elastic-cost", {"seconds": data}, "\n".join(lines))


def train(model, folder, accumulation, settings):
    """Seconds of each step, and the bytes of one that this rank gives to collectives."""
    dp.install(dp.DataParallelConfig(**settings))
    num_steps = WARM_UP + 1 + STEPS
    clock, group = Clock(), collectives.current()
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"), max_steps=num_steps, gradient_accumulation_steps=accumulation,
        logging_steps=10**6, save_strategy="no", disable_tqdm=True, log_level="error",
    )  # fmt: skip
    dataset = models.dataset(MODEL, 64 * models.MODELS[MODEL][1])
    given = count_bytes(group)
    Trainer(model=model, args=arguments, train_dataset=dataset, callbacks=[clock]).train()
    for name in ("all_reduce", "reduce_scatter", "all_gather"):
        delattr(group, name)
    gc.collect()  # a Trainer is in cycles; its optimizer's states take as much as two models
    seconds = [end - begin for begin, end in zip(clock.ends[WARM_UP:], clock.ends[WARM_UP + 1 :])]
    return seconds, sum(given) / num_steps


if __name__ == "__main__":
    main()
