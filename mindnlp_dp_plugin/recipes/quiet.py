"""Keep warnings of libraries off the terminal: they go to a file in the log folder."""

import logging
import os
import warnings
from pathlib import Path

from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.variables import LOG_DIR


def begin() -> None:
    """Send warnings of libraries to ``warnings_<rank>.log``. Call it before MindNLP is imported."""
    folder = os.environ.get(LOG_DIR)
    path = Path(folder, f"warnings_{detect().rank}.log") if folder else Path(os.devnull)
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").addHandler(handler)
    warnings.simplefilter("default")
    # MindSpore tells of its allocator when the first tensor is made, jieba of its dictionary: native code, too.
    kept, file = [os.dup(1), os.dup(2)], os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        import datasets
        import mindspore

        mindspore.Tensor([0.0]).copy()
        import mindnlp.transformers  # noqa: F401
    finally:
        for descriptor, saved in zip((1, 2), kept):
            os.dup2(saved, descriptor)
            os.close(saved)
        os.close(file)

    datasets.disable_progress_bars()
    for name in ("mindnlp", "datasets", "MindSpore", "matplotlib"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
