"""The mean of a binary cross entropy: both MindNLPs' has another gradient from the second batch size on."""

import functools
from collections.abc import Callable
from typing import Any


def of_elements(stock: Callable[..., Any]) -> Callable[..., Any]:
    """``binary_cross_entropy_with_logits`` whose mean is that of what it gives for each element.

    MindSpore's gradient divides by the number of elements of the first call, if the target is made in the function that
    is differentiated.

    Args:
        stock: MindNLP's function.
    """

    @functools.wraps(stock)
    def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
        if reduction != "mean":
            return stock(input, target, weight, reduction, pos_weight)
        return stock(input, target, weight, "none", pos_weight).mean()

    return binary_cross_entropy_with_logits
