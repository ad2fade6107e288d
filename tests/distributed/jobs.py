"""On how many ranks and which engine a test runs."""

from itertools import product

import pytest


def jobs(*quick: tuple[int, str]) -> list:
    """Every job of 2 or 3 ranks over MPI or MCCL; those that are not ``quick`` are marked slow."""
    every = product((2, 3), ("mpi", "mccl"))
    return [job if job in quick else pytest.param(job, marks=pytest.mark.slow) for job in every]
