"""Several sequences in one row: which share a row, and the masks and positions that keep them apart.

Best-fit decreasing (Ding et al. 2024, "Fewer Truncations Improve Language Modeling"): the longest sequence first, each
into the fullest row that it still fits into. What is in a row is the same in each epoch; the order of rows may not be.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from mindspore import dataset as ds

from mindnlp_dp_plugin.data.sharded import ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError

IGNORED = -100
TOKENS, LABELS, MASK = "input_ids", "labels", "attention_mask"
COLUMNS = [TOKENS, LABELS, "position_ids", "segments"]
MASKED = float(np.finfo(np.float32).min)


def pack_dataset(
    dataset: Any,
    seq_length: int,
    batch_size: int,
    shuffle: bool = False,
    drop_remainder: bool = False,
    pad_token_id: int = 0,
) -> ds.Dataset:
    """Rows of several sequences each, for a causal language model, in batches.

    A token sees the tokens before it of its own sequence only, and positions begin anew in each, so the loss of a
    sequence is the one it has in a row of its own. Before training the model is tried: it must read rows so. A sequence
    that is longer than a row loses its end. One without any label left is left out, as its loss would be nan. The masks
    of a batch take ``batch_size * seq_length * seq_length * 4`` bytes, on the host and on the device.

    Args:
        dataset: The sequences, the same on all ranks: anything with ``len()`` whose items are mappings (a
            ``datasets.Dataset``, a list), or a MindSpore pipeline before ``batch``, which is read once. Columns:
            ``input_ids``; ``labels`` (without them, the tokens); ``attention_mask``, whose zeros are padding that is
            left out.
        seq_length: Tokens in a row.
        batch_size: Rows in a batch of one rank.
        shuffle: Whether rows come in a new order each epoch.
        drop_remainder: Whether rows that fill no batch are left out.
        pad_token_id: What the end of a row is filled with; its labels are -100.

    Returns:
        A pipeline with the columns ``input_ids``, ``labels``, ``position_ids``, int32 of shape ``(batch_size,
        seq_length)``, and ``attention_mask``, float32 of shape ``(batch_size, 1, seq_length, seq_length)``: 0 where a
        token sees another, elsewhere float32's minimum.

    Raises:
        DataParallelError: If there is nothing to pack, a number is too small, or a column cannot be packed.

    Examples:
        >>> train = dp.pack_dataset(tokenized, seq_length=1024, batch_size=4, shuffle=True)
        >>> Trainer(model, arguments, train_dataset=train).train()
    """
    if batch_size < 1:
        raise DataParallelError("batch_size={batch_size} holds no row: give at least 1.", batch_size=batch_size)
    rows = PackedRows(dataset, seq_length, pad_token_id)
    return ds.GeneratorDataset(rows, COLUMNS, shuffle=shuffle).batch(
        batch_size, drop_remainder, per_batch_map=_masks, input_columns=["segments"], output_columns=[MASK]
    )


def best_fit_decreasing(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Which sequences share a row.

    Args:
        lengths: Of each sequence, at most ``capacity``.
        capacity: Tokens in a row.

    Returns:
        The numbers of the sequences in each row, ascending; rows in the order of their first.
    """
    rows, room_left, with_room = [], [], defaultdict(list)  # rows by how much room they have
    for number in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        length = lengths[number]
        place = bisect_left(room_left, length)
        if place == len(room_left):
            row, room = len(rows), capacity
            rows.append([])
        else:
            room = room_left[place]
            row = with_room[room].pop()
            if not with_room[room]:
                del room_left[place]
        rows[row].append(number)
        room -= length
        if room and not with_room[room]:
            insort(room_left, room)
        with_room[room].append(row)
    return sorted(map(sorted, rows))


class PackedRows:
    """A source of packed rows, read by number.

    Args:
        dataset: As for ``pack_dataset``, as the next.
        seq_length: Tokens in a row.
        pad_token_id: What the end of a row is filled with.

    Attributes:
        rows: The numbers of the sequences in each row.
        seq_length: Tokens in a row.
        num_sequences: How many there are.
        num_cut: How many were longer than a row.
        num_unlearnt: How many have no label that a token predicts, and are in no row.
        fullness: The share of places that hold tokens of sequences.
        with_most: The row that has the most sequences.
        with_longest: A row that has the longest.
    """

    def __init__(self, dataset: Any, seq_length: int, pad_token_id: int = 0):
        if seq_length < 2:
            raise DataParallelError(
                "seq_length={seq_length} holds no token to predict: give at least 2.", seq_length=seq_length
            )
        self._sequences = _by_number(dataset)
        self.seq_length, self._filling = seq_length, pad_token_id
        lengths, learns = np.array([self._measure(number) for number in range(len(self._sequences))]).reshape(-1, 2).T
        if not learns.any():
            raise DataParallelError(
                "pack_dataset got no token to learn in {num} rows: each needs a label other than -100 after its first "
                "token and within the first seq_length={seq_length}.",
                num=len(lengths),
                seq_length=seq_length,
            )
        kept, packed = np.minimum(lengths, seq_length), np.flatnonzero(learns)
        self.rows = [packed[row].tolist() for row in best_fit_decreasing(kept[packed].tolist(), seq_length)]
        self.num_sequences = len(lengths)
        self.num_cut = int((lengths > seq_length).sum())
        self.num_unlearnt = len(lengths) - len(packed)
        self.fullness = float(kept[packed].sum() / (len(self.rows) * seq_length))
        self.with_most = max(range(len(self.rows)), key=lambda row: len(self.rows[row]))
        self.with_longest = max(range(len(self.rows)), key=lambda row: kept[self.rows[row]].max())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[np.ndarray, ...]:
        """Tokens, labels, positions, and the number of each token's sequence in the row, from 1; 0 is padding.

        All positions of padding are 0, so the tokens of a batch that are none can be counted from them.
        """
        tokens = np.full(self.seq_length, self._filling, np.int32)
        labels = np.full(self.seq_length, IGNORED, np.int32)
        positions, segments = np.zeros((2, self.seq_length), np.int32)
        begin = 0
        for segment, number in enumerate(self.rows[row], 1):
            sequence = self._read(number)
            end = min(begin + len(sequence.tokens), begin + self.seq_length)
            tokens[begin:end], labels[begin:end] = sequence.tokens[: end - begin], sequence.labels[: end - begin]
            labels[begin] = IGNORED  # no token is before it
            positions[begin:end], segments[begin:end] = np.arange(end - begin), segment
            begin = end
        return tokens, labels, positions, segments

    def _measure(self, number):
        """A sequence's length, and whether a label is left of it: the first token is predicted from nothing."""
        tokens, labels = self._read(number)
        return len(tokens), bool((labels[1 : self.seq_length] != IGNORED).any())

    def _read(self, number):
        row = self._sequences[number]
        if not isinstance(row, Mapping) or TOKENS not in row:
            raise DataParallelError(
                "pack_dataset: row {number} has no {column!r}: give each row as a mapping of column names to values.",
                number=number,
                column=TOKENS,
            )
        if others := [name for name in row if name not in (TOKENS, LABELS, MASK)]:
            raise DataParallelError(
                "pack_dataset packs {packed}, but rows also have {others}: leave them out.",
                packed=", ".join((TOKENS, LABELS, MASK)),
                others=", ".join(others),
            )
        columns = {name: np.asarray(values) for name, values in row.items() if values is not None}
        shapes = {values.shape for values in columns.values()}
        if len(shapes) > 1 or len(next(iter(shapes))) != 1:
            raise DataParallelError(
                "pack_dataset: row {number} has columns of the shapes {shapes}: give single rows, before .batch(), "
                "with a value for each token in each column.",
                number=number,
                shapes=", ".join(f"{name} {values.shape}" for name, values in columns.items()),
            )
        tokens, labels = columns[TOKENS], columns.get(LABELS, columns[TOKENS])
        if MASK in columns:
            kept = columns[MASK] != 0
            tokens, labels = tokens[kept], labels[kept]
        return _Sequence(tokens, labels)


class _Sequence(NamedTuple):
    tokens: np.ndarray
    labels: np.ndarray


def packed_rows_of(dataset: ds.Dataset | ShardedDataset) -> PackedRows | None:
    """The source of a pipeline whose rows are packed; None for others."""
    node = dataset.whole if isinstance(dataset, ShardedDataset) else dataset
    while getattr(node, "children", None):
        node = node.children[0]
    source = getattr(node, "source", None)
    return source if isinstance(source, PackedRows) else None


def block_masks(segments: np.ndarray) -> np.ndarray:
    """The masks of rows, as models add them to attention's scores.

    Padding sees padding, so that no token sees nothing, whose mean would be no number.

    Args:
        segments: int32, of shape ``(rows, length)``: the number of each token's sequence.

    Returns:
        float32, of shape ``(rows, 1, length, length)``.
    """
    length = segments.shape[-1]
    sees = (segments[:, None, :, None] == segments[:, None, None, :]) & np.tri(length, dtype=bool)
    return np.where(sees, np.float32(0), np.float32(MASKED))


def _masks(segments, info):
    return (block_masks(np.stack(segments)),)


def _by_number(dataset):
    if isinstance(dataset, ds.Dataset):
        return list(dataset.create_dict_iterator(num_epochs=1, output_numpy=True))
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return dataset
    raise DataParallelError(
        "pack_dataset got a {type}: give a mindspore.dataset pipeline before .batch(), a datasets.Dataset or a list.",
        type=type(dataset).__name__,
    )
