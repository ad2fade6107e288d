"""Does a model read packed rows as it reads their sequences one by one? Tried before training."""

import logging
from functools import partial

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.data.packing import PackedRows, block_masks, packed_rows_of
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

logger = logging.getLogger(__name__)

CLOSE = 1e-4  # of the largest logit: what float32 differs by when the same is computed in another shape, a hundredfold


def require_packed_rows_read(model, dataset) -> None:
    """Raise unless a model reads packed rows as their sequences one by one, and say what was packed.

    Nothing is asked of other data sets.

    Args:
        model: A causal language model.
        dataset: What it is to train on.

    Raises:
        DataParallelError: If it does not, with how it differs.
    """
    rows = packed_rows_of(dataset)
    if rows is None:
        return
    modes = [(module, module.training) for module in model.modules()]
    model.set_train(False)
    try:
        fault = _fault(model, rows)
    finally:
        for module, is_training in modes:
            module.training = is_training
    if fault:
        raise DataParallelError(
            "packing: {model} does not read packed rows as it reads each sequence alone: {fault}. Train it on padded "
            "rows; the page on packing names the models that read packed ones.",
            model=type(model).__name__,
            fault=fault,
        )
    said = tr(
        "packing: {sequences} sequences in {rows} rows of {length} tokens, {share:.1%} full; {cut} longer ones lost "
        "their end, {unlearnt} have no label and are left out. Masks take {megabytes:.1f} MB a row.",
        sequences=rows.num_sequences,
        rows=len(rows),
        length=rows.seq_length,
        share=rows.fullness,
        cut=rows.num_cut,
        unlearnt=rows.num_unlearnt,
        megabytes=rows.seq_length**2 * 4 / 2**20,
    )
    if current().rank == 0:
        logger.warning(said)


def _fault(model, rows: PackedRows):
    logits = partial(_logits, model)
    for row in {rows.with_most, rows.with_longest}:
        tokens, _, positions, segments = rows[row]
        try:
            packed = logits(tokens, attention_mask=block_masks(segments[None]), position_ids=positions[None])
        except Exception as error:  # whatever it is that it cannot read
            said = str(error).strip().splitlines()
            return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
        longest = np.bincount(segments)[1:].argmax() + 1
        for segment in {1, longest, segments.max()}:
            places = np.flatnonzero(segments == segment)
            alone = logits(tokens[places])
            difference = float(np.abs(packed[places] - alone).max() / np.abs(alone).max())
            if not difference < _close(model):
                return tr("logits differ by {difference:.1e} of the largest", difference=difference)
    return None


def _logits(model, tokens, **others):
    from mindnlp.core import no_grad

    inputs = {name: mindspore.Tensor(values) for name, values in others.items()}
    with no_grad():
        return model(input_ids=mindspore.Tensor(tokens[None]), **inputs).logits[0].float().asnumpy()


def _close(model):
    dtypes = {parameter.dtype for parameter in model.parameters()}
    coarse = [2.0**-10 for dtype in dtypes if dtype == mindspore.float16]
    coarse += [2.0**-7 for dtype in dtypes if dtype == mindspore.bfloat16]
    return max([CLOSE, *(32 * each for each in coarse)])
