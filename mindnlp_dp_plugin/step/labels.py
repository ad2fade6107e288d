"""What a loss is a mean over: labels that are not -100, or rows where there are none."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindnlp_dp_plugin.distributed.gather import PADDING, to_numpy
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.step.left_out import FIRST, MASKED, counts_rows

LABELS = "labels"
SPANS = ("start_positions", "end_positions")


def name_of_labels(names: Sequence[str] | None, model: Any) -> str | None:
    """The column of labels, by ``TrainingArguments.label_names``; None if that says there is none, or rows count."""
    if counts_rows(model):
        return None
    return LABELS if names is None else next(iter(names), None)


def count_labels(batch: Mapping, leaves_out: str | None = None, name: str | None = LABELS) -> int | None:
    """How many labels a batch has of which a row may have several, or none; None where rows count.

    Args:
        batch: The columns, by name.
        leaves_out: Which the model leaves out, beside those that are -100.
        name: The column of labels; None if rows count, whatever the columns are.

    Raises:
        DataParallelError: If labels stand in another column, or a row has one end of a span without the other.
    """
    if name is None:
        return None
    labels = None if name in SPANS else labels_of(batch, name)
    if labels is not None:
        return count_kept(labels, leaves_out, batch.get("attention_mask"))
    _require_no_other_labels(batch, name)
    return _count_spans(batch)


def may_have_labels(batch: Mapping, name: str | None = LABELS) -> bool:
    """Whether ``count_labels`` may find any: the same on all ranks, where some have rows without."""
    if name is None or not isinstance(batch, Mapping):
        return False
    labels = batch.get(name)
    is_counted = getattr(labels, "ndim", 0) > 0 and to_numpy(labels[:1]).dtype.kind in "iu"
    return is_counted or has_spans(batch)


def labels_of(batch: Mapping, name: str = LABELS) -> np.ndarray | None:
    """The labels of which a row has several, as an array; None where a row counts as a whole."""
    labels = batch.get(name) if isinstance(batch, Mapping) else None
    if getattr(labels, "ndim", 0) < 1:
        return None
    labels = to_numpy(labels)
    is_counted = labels.dtype.kind in "iu" and (labels.ndim > 1 or (labels == PADDING).any())
    return labels if is_counted else None


def many_labels_of(batch: Mapping, name: str | None) -> np.ndarray | None:
    """The labels by which ranks weigh a loss, if each row has several; otherwise None."""
    labels = labels_of(batch, name) if name else None
    return None if labels is None or labels.ndim < 2 else labels


def count_kept(labels: np.ndarray, leaves_out: str | None, mask: Any = None) -> int:
    """Labels that are not -100, and that the model does not leave out: the first of a row, or those under the mask."""
    kept = (labels[..., 1:] if leaves_out == FIRST else labels) != PADDING
    if leaves_out == MASKED and mask is not None:
        kept &= to_numpy(mask) == 1
    return int(kept.sum())


def has_spans(batch: Any) -> bool:
    """Whether a batch has the columns of question answering, whose model leaves out the places behind its tokens."""
    return isinstance(batch, Mapping) and all(name in batch for name in SPANS)


def _require_no_other_labels(batch, name):
    for column, values in batch.items() if isinstance(batch, Mapping) else ():
        if column in (name, *SPANS) or getattr(values, "ndim", 0) < 1:
            continue
        array = to_numpy(values)
        if array.dtype.kind == "i" and (array == PADDING).any():
            raise DataParallelError(
                "{column!r} holds -100, as labels do that a loss leaves out, but only labels in {name!r} are counted. "
                "Name it in TrainingArguments(label_names=[...]), or call the argument of your own loop's function "
                "'labels'. If your loss is a mean over rows, give label_names=[], or in a loop "
                "average_over='ranks' and compute it by dp.global_mean.",
                column=column,
                name=name,
            )


def _count_spans(batch):
    """Question answering models leave out answers behind their last token, each end for itself."""
    if not isinstance(batch, Mapping) or not all(getattr(batch.get(name), "ndim", 0) == 1 for name in SPANS):
        return None
    if getattr(batch.get("input_ids"), "ndim", 0) != 2:
        return None
    length = batch["input_ids"].shape[1]
    starts, ends = (to_numpy(batch[name]) < length for name in SPANS)
    if (starts != ends).any():
        raise DataParallelError(
            "An answer begins within the {length} tokens of its row and ends behind them: the model's loss is then two "
            "means over different rows, which ranks cannot weigh. Set both positions to 0, or to {length}.",
            length=length,
        )
    return int(starts.sum())
