"""How much ranks compute: tokens, and floating point operations by formula, as sums that nobody waits for."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.distributed.gather import to_numpy
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.trainers.observe.flops import ModelFlops
from mindnlp_dp_plugin.trainers.observe.peak import peak_tflops

TERA = 1e12
IGNORED = -100  # a label that is not in the loss
NOTHING = np.zeros(0, np.int64)
MOST_PENDING = 1000  # batches whose lengths are still on the device


class Amount(NamedTuple):
    """What was computed.

    Attributes:
        tokens: Those of rows, and of what an encoder-decoder writes; without padding.
        positions: The same with padding.
        flops: Floating point operations that the tokens take in forward and backward.
        is_masked: Whether each batch had an ``attention_mask``; without one, padding counts as tokens.
    """

    tokens: int = 0
    positions: int = 0
    flops: float = 0.0
    is_masked: bool = True

    @property
    def padding(self) -> float:
        """The share of positions that hold none of the tokens."""
        return 1 - self.tokens / self.positions

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(*map(sum, zip(self[:3], other[:3])), self.is_masked and other.is_masked)


class Work:
    """What all ranks have computed since training began. All ranks must make it: they compare their peaks.

    A batch costs a sum over its mask, which is still in the host's memory on CPU, and is read from a device only when
    the numbers are asked for.

    Args:
        model: What is trained.
        collective: The ranks that train together.
        config: The settings; ``peak_tflops`` counts.

    Attributes:
        of_ranks: What all ranks had computed when they were last asked.
        peak: What all ranks could compute in a second at most, in units of 1e12; None if nobody knows.
    """

    def __init__(self, model, collective: Collective, config: DataParallelConfig):
        self._flops = ModelFlops(model)
        self._own, self._pending = Amount(), []
        self.of_ranks = Amount()
        peaks = collective.all_gather_object(peak_tflops(config.peak_tflops), Message("peaks of devices"))
        self.peak = None if None in peaks else sum(peaks)

    def add(self, batch: Mapping[str, Any]) -> None:
        """A batch is about to be computed by this rank."""
        shape, mask = _shape(batch), batch.get("attention_mask")
        if shape is None:
            return
        is_masked = mask is not None and tuple(mask.shape) == shape
        lengths = [_lengths(mask) if is_masked else np.full(math.prod(shape[:-1]), shape[-1])]
        positions = math.prod(shape)
        if self._flops.is_encoder_decoder:
            decoded = _decoded(batch)
            lengths.append(lengths[0] if decoded is None else _lengths(decoded))
            positions += math.prod(shape if decoded is None else decoded.shape)
        self._pending.append((lengths, positions, is_masked))
        if isinstance(lengths[0], np.ndarray) or len(self._pending) == MOST_PENDING:
            self._count()

    def own(self) -> Amount:
        """What this rank has computed."""
        self._count()
        return self._own

    def gathered(self, amounts: list[Amount]) -> None:
        """Take what each rank has computed."""
        self.of_ranks = sum(amounts, Amount())

    def numbers(self, seconds: float, since: Amount = Amount()) -> dict[str, float]:  # noqa: B008
        """Tokens and model FLOPS per second of all ranks, and the utilisation of their devices.

        Args:
            seconds: In which it was computed.
            since: What had been computed before.

        Returns:
            ``tokens_per_second``, ``model_tflops`` (in units of 1e12 a second) and, where the peak is known, ``mfu``,
            the share of it. Empty if the model reads no tokens.
        """
        tokens, flops = self.of_ranks.tokens - since.tokens, self.of_ranks.flops - since.flops
        if not tokens or seconds <= 0:
            return {}
        speed = {"tokens_per_second": tokens / seconds, "model_tflops": flops / seconds / TERA}
        return speed | ({"mfu": speed["model_tflops"] / self.peak} if self.peak else {})

    def summary(self, seconds: float, num_ranks: int) -> list[str]:
        """The same in words, a line each."""
        numbers = self.numbers(seconds)
        if not numbers:
            return []
        of_all, tflops = numbers["tokens_per_second"], numbers["model_tflops"]
        known = {"all": of_all, "one": of_all / num_ranks}
        if self.of_ranks.is_masked:
            line = tr(
                "tokens per second: {all:.4g}, per rank {one:.4g}; padding ({padding:.1%}) not counted",
                padding=self.of_ranks.padding,
                **known,
            )
        else:
            line = tr(
                "tokens per second: {all:.4g}, per rank {one:.4g}; padding counted, as there is no attention_mask",
                **known,
            )
        shown = {"all": tflops, "one": tflops / num_ranks}
        if self.peak is None:
            return [line, tr("model TFLOPS: {all:.4g}, per rank {one:.4g}", **shown)]
        of_peak = tr(
            "model TFLOPS: {all:.4g}, per rank {one:.4g}; MFU {mfu:.1%} of {peak:.4g} per rank",
            mfu=numbers["mfu"],
            peak=self.peak / num_ranks,
            **shown,
        )
        return [line, of_peak]

    def _count(self):
        for lengths, positions, is_masked in self._pending:
            inputs, decoded = to_numpy([*lengths, NOTHING])[:2]
            tokens, flops = int(inputs.sum() + decoded.sum()), self._flops.of(inputs, decoded)
            self._own += Amount(tokens, positions, flops, is_masked)
        self._pending.clear()


def _shape(batch):
    """(rows, ..., positions) of what the model reads; None if these are no tokens."""
    if batch.get("input_ids") is not None:
        shape = batch["input_ids"].shape
    elif batch.get("inputs_embeds") is not None:
        shape = batch["inputs_embeds"].shape[:-1]
    else:
        return None
    return tuple(shape) if len(shape) > 1 else None


def _decoded(batch):
    """The mask of what an encoder-decoder writes; None if that follows from its inputs."""
    if batch.get("decoder_attention_mask") is not None:
        return batch["decoder_attention_mask"]
    labels = batch.get("labels")
    return _readable(labels) != IGNORED if labels is not None and labels.ndim == 2 else None


def _lengths(mask):
    """How many positions of each row are set: an array on CPU, on a device a tensor that nobody waits for."""
    return _readable(mask).sum(-1).reshape(-1)


def _readable(tensor):
    return to_numpy(tensor) if mindspore.get_context("device_target") == "CPU" else tensor
