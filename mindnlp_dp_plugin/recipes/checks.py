"""Everything about a recipe that can be wrong before it starts, looked at without MindSpore and on no rank."""

from importlib.util import find_spec

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.options import ClassificationOptions

NEEDED = ("sklearn", "matplotlib", "tensorboard", "tensorboardX", "charset_normalizer", "openpyxl")


def check(options: ClassificationOptions, num_ranks: int) -> None:
    """Make sure that data, model and output folder can be used.

    Args:
        options: What is to be trained.
        num_ranks: On how many ranks.

    Raises:
        DataParallelError: For the first thing that is wrong.
    """
    if missing := [package for package in NEEDED if find_spec(package) is None]:
        raise DataParallelError(f"recipes need {', '.join(missing)}: pip install 'mindnlp-dp-plugin[recipes]'.")
    from mindnlp_dp_plugin.recipes.models import check_model
    from mindnlp_dp_plugin.recipes.run_folder import RunFolder
    from mindnlp_dp_plugin.recipes.tables import read_texts

    RunFolder(options.output_dir).check(options.resume)
    if options.model is not None:
        check_model(options.model, options.max_length)
    if options.dataset is None:
        return
    texts = read_texts(options)
    num_rows = len(texts.splits["train"])
    if num_rows < num_ranks * options.batch_size:
        raise DataParallelError(
            f"{num_rows} rows to train on are fewer than one step of {num_ranks} ranks x --batch-size "
            f"{options.batch_size}: give a smaller --batch-size, fewer ranks or more rows."
        )
