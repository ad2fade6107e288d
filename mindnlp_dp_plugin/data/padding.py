"""Rows of different length in one batch."""

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError


class DynamicPadding:
    """Pads the rows of a batch to the longest of them, rounded up to a multiple.

    What ``DataCollatorWithPadding(pad_to_multiple_of=...)`` is to the Hugging Face Trainer; here a ``per_batch_map``::

        padding = dp.DynamicPadding({"input_ids": tokenizer.pad_token_id, "attention_mask": 0}, pad_to_multiple_of=16)
        batches = rows.batch(16, per_batch_map=padding, input_columns=padding.columns)

    With a multiple, batches come in few sizes: each is a graph to compile on Ascend.

    Args:
        values: For each column to pad, what it is filled with on the right; -100 for labels of tokens.
        pad_to_multiple_of: What the length of a batch is a multiple of.
        max_length: Batches are padded no further, multiple or not: how many positions the model has, say. Rows that
            are longer are left as they are.

    Attributes:
        columns: Their names.

    Raises:
        DataParallelError: For a number below 1, or if there is no column.
    """

    def __init__(self, values: Mapping[str, float], pad_to_multiple_of: int = 1, max_length: int | None = None):
        if not values:
            raise DataParallelError("values={} names no column to pad: give at least one, with what fills it.")
        if pad_to_multiple_of < 1:
            raise DataParallelError(f"pad_to_multiple_of={pad_to_multiple_of} is no length: give at least 1.")
        if max_length is not None and max_length < 1:
            raise DataParallelError(f"max_length={max_length} is no length: give at least 1, or None for any.")
        self.columns = list(values)
        self._values = list(values.values())
        self._multiple = pad_to_multiple_of
        self._max_length = max_length
        # MindSpore compares their number with that of the columns.
        names = [*(f"column_{number}" for number in range(len(values))), "info"]
        self.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])

    def __call__(self, *columns_and_info: Any) -> tuple[np.ndarray, ...]:
        """What MindSpore calls for each batch.

        Args:
            *columns_and_info: For each column the list of its rows, of shape ``(length, ...)``; then MindSpore's
                ``BatchInfo``.

        Returns:
            For each column an array of shape ``(rows, padded length, ...)``, of the dtype of the rows.
        """
        *columns, _ = columns_and_info
        return tuple(self._pad(rows, value) for rows, value in zip(columns, self._values))

    def _pad(self, rows, value):
        longest = max(map(len, rows))
        width = -(-longest // self._multiple) * self._multiple
        if self._max_length is not None:
            width = max(min(width, self._max_length), longest)
        batch = np.full((len(rows), width, *rows[0].shape[1:]), value, rows[0].dtype)
        for padded, row in zip(batch, rows):
            padded[: len(row)] = row
        return batch
