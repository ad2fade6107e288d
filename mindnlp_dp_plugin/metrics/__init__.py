"""Metrics for ``evaluate`` that need no hub: modules of this package, loaded by path."""

from pathlib import Path

import evaluate

from mindnlp_dp_plugin.distributed.ranks import get_rank, main_process_first

METRICS = sorted(folder.name for folder in Path(__file__).parent.iterdir() if (folder / f"{folder.name}.py").exists())


def load(name: str) -> evaluate.EvaluationModule:
    """Load a metric of this package, ready to ``compute``. All ranks must call it.

    Args:
        name: One of ``METRICS``.

    Raises:
        ValueError: If there is no metric of that name.

    Examples:
        >>> accuracy = metrics.load("accuracy")
        >>> accuracy.compute(predictions=[0, 1], references=[0, 1])
        {'accuracy': 1.0}
    """
    if name not in METRICS:
        raise ValueError(f"metric {name!r} is not known: choose one of {', '.join(METRICS)}.")
    path = Path(__file__).parent / name
    with main_process_first():  # evaluate copies the module into its cache
        return evaluate.load(str(path), experiment_id=f"rank_{get_rank()}", keep_in_memory=True)
