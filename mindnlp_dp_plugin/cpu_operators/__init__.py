"""Faster CPU operators for MindNLP's models, with the same mathematics; one operator per file. The extra ``[cpu]``.

Matrix products go through NumPy's BLAS library, in pieces whose cut changes no bit (``blas``). Elementwise and
last-axis operators take MindSpore many passes over memory; here most are loops compiled by numba, which make one
(``compiled``), and some are one call of NumPy.
``benchmarks/operators.py`` times them. Values and gradients differ from MindNLP's by rounding only. Tensors that are
not float32, or have an unusual form, use MindNLP's operators.
"""

from collections.abc import Callable

import mindspore

from mindnlp_dp_plugin.patching import Patches

__all__ = ["route"]


def route(patches: Patches, when_imported: Callable[[str, Callable], None]) -> None:
    """Let MindNLP's models use the operators of this room, if they compute on the CPU.

    Args:
        patches: Restores MindNLP's operators.
        when_imported: Calls a function with the module of a name as soon as that is imported, which may be now.

    Raises:
        ModuleNotFoundError: If numba or threadpoolctl is missing; nothing is replaced then.
    """
    if mindspore.get_context("device_target") == "CPU":
        from mindnlp_dp_plugin.cpu_operators import routes  # brings numba, which devices do without

        routes.route(patches, when_imported)
