"""What averaging gradients costs: the alpha-beta model of messages, and the step that hides them.

A message of K bytes takes alpha + K / B seconds: a latency, and a time for each byte. The formula of the ring is
that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Link:
    """The link between two neighbours.

    Attributes:
        latency: Seconds a message takes in addition to its bytes (alpha).
        bandwidth: Bytes per second (B, or 1 / beta).
    """

    latency: float
    bandwidth: float

    def seconds(self, num_bytes: float) -> float:
        """Seconds a message takes."""
        return self.latency + num_bytes / self.bandwidth


def ring_all_reduce(num_bytes: float, world_size: int, link: Link) -> float:
    """Seconds of an all-reduce in a ring: 2 (N - 1) messages in a row, each of K / N bytes."""
    return 2 * (world_size - 1) * link.seconds(num_bytes / world_size)


def fit_ring(sizes: Sequence[int], seconds: Sequence[float], world_size: int) -> Link:
    """The link whose ring model fits measured all-reduces best, by least squares of the relative errors.

    Args:
        sizes: Bytes of each message.
        seconds: Seconds each message took.
        world_size: Number of ranks.
    """
    sizes, seconds = np.asarray(sizes, float), np.asarray(seconds, float)
    hops = 2 * (world_size - 1)
    per_second = np.stack([np.full_like(sizes, hops), hops * sizes / world_size], axis=1) / seconds[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(per_second, np.ones_like(sizes), rcond=None)
    if latency <= 0:  # lost in the noise of the large ones
        latency = min(seconds) / hops
        per_byte = np.median((seconds - hops * latency)[sizes == sizes.max()]) / (hops * sizes.max() / world_size)
    return Link(float(latency), float(1 / per_byte))


def exposed_seconds(num_bytes: float, bucket_bytes: float, backward: float, world_size: int, link: Link) -> float:
    """Seconds a step waits after backward, if buckets fill evenly during it and travel one after another.

    Args:
        num_bytes: Bytes of all gradients.
        bucket_bytes: Bytes of a bucket.
        backward: Seconds of backward alone.
        world_size: Number of ranks.
        link: The link between neighbours.
    """
    num_buckets = max(1, round(num_bytes / bucket_bytes))
    seconds = ring_all_reduce(num_bytes / num_buckets, world_size, link)
    free = 0.0
    for number in range(1, num_buckets + 1):
        free = max(free, backward * number / num_buckets) + seconds
    return free - backward


def best_bucket(num_bytes: float, backward: float, world_size: int, link: Link, sizes: Sequence[float]) -> float:
    """The bucket size, of ``sizes`` in bytes, with which a step waits least."""
    return min(sizes, key=lambda size: exposed_seconds(num_bytes, size, backward, world_size, link))
