"""Pad rows of different lengths to one batch."""

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError


class DynamicPadding:
    """Pads the rows of a batch to the longest of them, rounded up to a multiple.

    The counterpart of transformers' ``DataCollatorWithPadding(pad_to_multiple_of=...)``, as a ``per_batch_map``.

    With a multiple, batches have few sizes; Ascend compiles a graph for each.

    Args:
        values: The columns to pad, each with the value to pad it with on the right; -100 for labels of tokens.
        pad_to_multiple_of: The length of a batch is rounded up to a multiple of this.
        max_length: Batches are padded no further, for example to the number of positions of the model. Longer rows
            are left as they are.

    Attributes:
        columns: The names of the columns to pad.

    Raises:
        DataParallelError: If a number is below 1, or ``values`` is empty.

    Examples:
        >>> padding = dp.DynamicPadding({"input_ids": 0, "attention_mask": 0}, pad_to_multiple_of=16)
        >>> batches = rows.batch(16, per_batch_map=padding, input_columns=padding.columns)
    """

    def __init__(self, values: Mapping[str, float], pad_to_multiple_of: int = 1, max_length: int | None = None):
        if not values:
            raise DataParallelError(
                "values={} names no column to pad: give at least one, with the value to pad it with."
            )
        if pad_to_multiple_of < 1:
            raise DataParallelError(
                "pad_to_multiple_of={pad_to_multiple_of} is not a length: give at least 1.",
                pad_to_multiple_of=pad_to_multiple_of,
            )
        if max_length is not None and max_length < 1:
            raise DataParallelError(
                "max_length={max_length} is not a length: give at least 1, or None for any.", max_length=max_length
            )
        self.columns = list(values)
        self._values = list(values.values())
        self._multiple = pad_to_multiple_of
        self._max_length = max_length
        # MindSpore compares the number of parameters with the number of columns.
        names = [*(f"column_{number}" for number in range(len(values))), "info"]
        self.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])

    def __call__(self, *columns_and_info: Any) -> tuple[np.ndarray, ...]:
        """Pad one batch; MindSpore calls this.

        Args:
            *columns_and_info: For each column a list of rows, each of shape ``(length, ...)``; then MindSpore's
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
