"""Faster CPU operators for MindNLP's models, with the same mathematics; one operator per file.

Matrix products go through NumPy's BLAS library, in pieces whose cut depends only on shapes (``blas``). Elementwise and
last-axis operators take MindSpore many passes over memory; here NumPy computes them block by block in the cache.
``benchmarks/operators.py`` times them. Values and gradients differ from MindNLP's by rounding only. Tensors that are
not float32, or have an unusual form, use MindNLP's operators.
"""

from mindnlp_dp_plugin.cpu_operators.routes import route

__all__ = ["route"]
