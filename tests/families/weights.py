"""Whether a model's initial weights are numbers that somebody chose."""

import re
from unittest import mock

import numpy as np
from mindnlp.core import ops
from mindnlp.core.ops import creation

NEVER_SET = -7e7
NORM = re.compile(r"norm|ln_|\.ln\d?\.", re.IGNORECASE)
ZERO_BY_DESIGN = {"gemma": NORM, "gemma2": NORM}  # they multiply by 1 + weight


def check_all_are_set(build):
    """Build a model in memory full of one number, and look for that number.

    Raises:
        AssertionError: If a parameter still has it; the message names all that do.
    """
    stock = ops.empty

    def filled(*size, **options):
        return ops.full_like(stock(*size, **options), NEVER_SET)

    with mock.patch.object(ops, "empty", filled), mock.patch.object(creation, "empty", filled):
        model = build()
    never = [name for name, parameter in model.named_parameters() if (parameter.asnumpy() == NEVER_SET).any()]
    assert not never, f"never set: {', '.join(never)}"


def check_are_drawn(folder, model):
    """Look for matrices of one number, and norms of zeros.

    Raises:
        AssertionError: If there are; the message names them.
    """
    by_design = ZERO_BY_DESIGN.get(folder)
    constant = [
        name
        for name, parameter in model.named_parameters()
        if is_constant(name, parameter.asnumpy()) and not (by_design and by_design.search(name))
    ]
    assert not constant, f"not drawn: {', '.join(constant)}"


def is_constant(name, values):
    if name.endswith("bias"):
        return False
    if NORM.search(name):
        return not values.any()
    return values.ndim > 1 and values.size > 1 and np.ptp(values) == 0
