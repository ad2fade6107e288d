"""The proof that ranks train as one process: a few steps of both, on the same rows, without dropout."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.words import remark, say

MODULE = "mindnlp_dp_plugin.recipes"
STEPS = 10
RECORD = "steps.npz"
LOSS_BOUND = 2e-4  # losses are logged with four digits
WEIGHTS_BOUND = 0.05  # of what training changed: sums in another order, which Adam makes larger where gradients are 0
EQUAL = Message(
    "{ranks} ranks train as one process: losses differ by at most {loss:.1e}, weights by {apart:.1e} of what training "
    "changed"
)
DIFFERENT = Message(
    "{ranks} ranks do NOT train as one process: losses differ by up to {loss:.1e}, weights by {apart:.1e} of what "
    "training changed"
)
SPEED = Message("rows per second: {one:.4g} with 1 rank, {several:.4g} with {ranks}")


def prove(options: RecipeOptions, task: str, nproc: int, engine: str, log_dir: Path) -> int:
    """Train some steps with one rank, and with all; compare; a finished run gets it into its results and report.

    Args:
        options: The recipe's.
        task: What is learnt.
        nproc: Number of ranks.
        engine: Their backend.
        log_dir: For logs.

    Returns:
        The exit status: 0 if both took the same steps, 1 if not, else that of the job that failed.
    """
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in (1, nproc):
            folder = Path(scratch, str(ranks))
            some = replace(options, batch_size=options.batch_size * nproc // ranks, output_dir=folder, resume=False)
            request = replace(some, folds=None, report_to=("none",)).to_json()
            job = Job(["-m", MODULE, "prove", request, task], ranks, engine, log_dir)
            if status := launch(job):
                return status
            with np.load(folder / RECORD) as record:
                found.append(dict(record))
    proof = compare(*found, nproc)
    print(in_words(proof))
    folder = RunFolder(options.output_dir)
    if folder.metrics.exists():
        from mindnlp_dp_plugin.recipes import report

        results = {**folder.results(), "proof": proof}
        folder.write_results(results)
        report.write(folder, results)
        print(tr("report: {path}", path=folder.report))
    return 0 if proof["equal"] else 1


def compare(one: dict, several: dict, ranks: int) -> dict:
    """What the records of ``take_steps`` have in common, in a form JSON can hold.

    Args:
        one: Of one rank.
        several: Of all.
        ranks: How many those are.
    """
    loss = float(np.abs(one["losses"] - several["losses"]).max())
    moved = np.linalg.norm(one["after"] - one["before"])
    apart = float(np.linalg.norm(several["after"] - one["after"]) / moved)
    is_equal = loss <= LOSS_BOUND and apart <= WEIGHTS_BOUND
    speeds = [float(each["rows_per_second"]) for each in (one, several)]
    return {
        "ranks": ranks,
        "losses": [one["losses"].tolist(), several["losses"].tolist()],
        "equal": is_equal,
        "verdict": remark(EQUAL if is_equal else DIFFERENT, ranks=ranks, loss=loss, apart=apart),
        "speed": remark(SPEED, one=speeds[0], several=speeds[1], ranks=ranks),
    }


def in_words(proof: dict) -> str:
    """The comparison, for the terminal."""
    head = tr("step   1 rank   {ranks} ranks", ranks=proof["ranks"])
    lines = [f"{step:4}   {one:.4f}   {several:.4f}" for step, (one, several) in enumerate(zip(*proof["losses"]), 1)]
    return "\n".join([head, *lines, say(proof["verdict"]), say(proof["speed"])])


def take_steps(options: RecipeOptions, task: str) -> None:
    """Train some steps in the order of the rows and without dropout, and record them. All ranks must call it.

    Args:
        options: The recipe's; its output folder gets the record.
        task: What is learnt.
    """
    from mindnlp.transformers import AutoConfig

    import mindnlp_dp_plugin as dp
    from mindnlp_dp_plugin.recipes.models import add_lora
    from mindnlp_dp_plugin.recipes.prepared import prepare
    from mindnlp_dp_plugin.recipes.training import RecipeTrainer, training_arguments
    from mindnlp_dp_plugin.trainers.mindnlp.public import set_seed

    folder = RunFolder(options.output_dir)
    set_seed(options.seed)
    data = prepare(options, folder.prepared, task)
    options = replace(options, model=data.facts["chosen_model"], best_by="loss")
    with dp.main_process_first():
        settings = AutoConfig.from_pretrained(data.model.path, **data.model.how).to_dict()
        kept = {name: 0.0 for name, value in settings.items() if "drop" in name and isinstance(value, float)}
        model = data.begun_model(options.seed, **kept)
    arguments = training_arguments(options, folder, epochs=1.0, is_fold=True)
    arguments.max_steps, arguments.logging_steps, arguments.logging_first_step = STEPS, 1, True
    if options.lora:
        model = add_lora(model, options.lora_r, options.lora_alpha, data.task.lora_type, dropout=0.0)
    rows = data.pipeline("train", options.batch_size, packing=options.packing)
    trainer = RecipeTrainer(data, options, model=model, args=arguments, train_dataset=rows)
    before = _weights(model)
    trainer.train()
    if dp.is_main_process():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        speed = trainer.throughput.summary(STEPS)["rows_per_second"]
        np.savez(folder.home / RECORD, losses=losses, before=before, after=_weights(model), rows_per_second=speed)
    dp.barrier()


def _weights(model):
    return np.concatenate([weight.asnumpy().astype(np.float64).reshape(-1) for weight in model.parameters()])
