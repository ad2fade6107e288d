"""Faster CPU operators for what MindNLP's models spend their time on, with the same mathematics.

Each file has one operator. Matrix products go through the BLAS library that NumPy brings, on several cores in pieces
whose cut knows only shapes (``blas``). What is done to each number by itself or along the last axis, MindSpore does in
many passes over memory, and NumPy in one, block by block in the cache. ``benchmarks/operators.py`` times them. Values
and gradients differ from those of MindNLP's choice by rounding alone. Whatever is not float32, or of an unusual form,
goes the way it always went.
"""

from mindnlp_dp_plugin.cpu_operators.routes import route

__all__ = ["route"]
