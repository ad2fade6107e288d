"""Check everything about a recipe that can be wrong before a rank starts, without MindSpore."""

from importlib.util import find_spec

from mindnlp_dp_plugin.errors import DataParallelError

NEEDED = ("sklearn", "tensorboardX", "charset_normalizer", "openpyxl", "jinja2", "matplotlib", "seqeval", "yaml")


def require_packages() -> None:
    """Make sure that what recipes import is installed.

    Raises:
        DataParallelError: Naming what is not.
    """
    if missing := [package for package in NEEDED if find_spec(package) is None]:
        raise DataParallelError(
            "recipes need {missing}: pip install 'mindnlp-dp-plugin[recipes]'.", missing=", ".join(missing)
        )


def check(options, num_ranks: int, task: str, prove: bool = False) -> None:
    """Check that data, model and output folder can be used. Long, as the order of the checks is what it says.

    Args:
        options: The recipe's options.
        num_ranks: Number of ranks.
        task: The task.
        prove: Whether a proof is wanted, which a finished run gets into its report.

    Raises:
        DataParallelError: For the first problem found.
    """
    from mindnlp_dp_plugin.recipes.models import check_model
    from mindnlp_dp_plugin.recipes.options import MODEL_NAMES
    from mindnlp_dp_plugin.recipes.run_folder import RunFolder, fingerprint
    from mindnlp_dp_plugin.recipes.tasks import get_task

    learnt, folder = get_task(task), RunFolder(options.output_dir)
    if "none" in options.report_to and len(options.report_to) > 1:
        raise DataParallelError("--report-to {names}: none goes with no other.", names=", ".join(options.report_to))
    for name in options.report_to:
        if name in ("wandb", "swanlab") and find_spec(name) is None:
            raise DataParallelError(
                "--report-to {name} needs {name}, which is not installed: pip install {name}.", name=name
            )
    if options.best_by not in (None, *learnt.best_by):
        raise DataParallelError(
            "--best-by {best_by!r} is no score of {task}: give one of {scores}.",
            best_by=options.best_by,
            task=task,
            scores=", ".join(learnt.best_by),
        )
    if prove and num_ranks < 2:
        raise DataParallelError("--prove compares ranks with one process: give --nproc 2 or more.")
    if not prove:
        folder.check(options)
    for name in ("resume", "patience"):
        if options.folds and getattr(options, name):
            raise DataParallelError(
                "--{name} does not go with --folds: each fold is trained from the start to its last epoch.", name=name
            )
    if options.mirror is not None and options.model in (None, *MODEL_NAMES):
        raise DataParallelError("--mirror {mirror!r} needs a hub name: give --model.", mirror=options.mirror)
    if options.is_from_nothing and options.model not in learnt.small_models:
        raise DataParallelError(
            "--model {model!r} is no model for {task}: give {small_models}, a folder or a hub name.",
            model=options.model,
            task=task,
            small_models=", ".join(learnt.small_models),
        )
    if options.model is not None:
        check_model(options.model, options.max_length, options.mirror)
    if options.dataset is None and not options.resume:
        return
    data = learnt.read(options)
    model = options.model or learnt.choose_model(data.splits["train"]["text"])[0]
    if options.model is None:
        check_model(model, options.max_length)
    if options.resume or prove and folder.has_checkpoints:
        folder.require_same(fingerprint(learnt, data, options, model))
    num_rows = len(data.splits["train"]) - max(map(len, learnt.folds(data, options) or [[]]))
    if num_rows < num_ranks * options.batch_size * options.accumulation:
        raise DataParallelError(
            "{num_rows} rows to train on are fewer than one step of {num_ranks} ranks x --batch-size {batch_size} x "
            "--accumulation {accumulation}: give a smaller --batch-size, fewer ranks or more rows.",
            num_rows=num_rows,
            num_ranks=num_ranks,
            batch_size=options.batch_size,
            accumulation=options.accumulation,
        )
