"""The lengths of a pipeline's rows, for grouping."""

import numpy as np
from mindspore import dataset as ds
from tqdm import tqdm

from mindnlp_dp_plugin.data.sampler import NumberedRows, check_rank
from mindnlp_dp_plugin.data.shard import plan_to_group, with_sampler
from mindnlp_dp_plugin.data.sharded import ShardedByRow
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

MODEL_INPUT = "input_ids"


def measure_lengths(
    dataset: ds.Dataset,
    num_replicas: int,
    rank: int,
    column: str = "length",
    seed: int = 0,
    shows_progress: bool = True,
) -> np.ndarray:
    """The lengths of every N-th row, from row ``rank`` on, unshuffled.

    They are read from ``column`` if the pipeline has it anywhere before the batch. Otherwise ``input_ids`` is measured
    right before the batch, for which the rows are read and transformed once.

    Args:
        dataset: The pipeline of training rows, as for ``shard``. It is not changed.
        num_replicas: Number of ranks.
        rank: This rank, from 0.
        column: The column that holds each row's length.
        seed: As for ``shard``.
        shows_progress: Whether to show a bar if it takes more than two seconds.

    Returns:
        int64, of shape ``(rows of this rank,)``.

    Raises:
        DataParallelError: If the pipeline's rows cannot be reordered, or it has neither column.
    """
    check_rank(num_replicas, rank)
    plan = plan_to_group(dataset)
    by_name = {name: node for node in reversed(plan.before_batching) for name in node.get_col_names()}
    measured = next((name for name in (column, MODEL_INPUT) if name in by_name), None)
    if measured is None:
        raise DataParallelError(
            "group_by_length=True finds neither a column {column!r} nor {model_input!r} in train_dataset, which has "
            "{columns}: name the column of lengths with length_column_name.",
            column=column,
            model_input=MODEL_INPUT,
            columns=", ".join(by_name),
        )
    num_rows = plan.source.get_dataset_size()
    plan.path = plan.before_batching[plan.before_batching.index(by_name[measured]) :]
    rows = NumberedRows(list(range(rank, num_rows, num_replicas)))
    part = ShardedByRow(with_sampler(plan, rows), num_replicas, rows, num_rows, seed)
    values = (row[measured] for row in part.create_dict_iterator(output_numpy=True))
    bar = tqdm(values, tr("measuring rows"), len(rows), delay=2, disable=not shows_progress)
    length_of = len if measured == MODEL_INPUT else np.ndarray.item
    return np.fromiter(map(length_of, bar), np.int64, len(rows))
