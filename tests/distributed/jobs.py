"""On how many ranks and which engine a test runs, and what the ranks leave."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest


def jobs(*quick: tuple[int, str]) -> list:
    """Every job of 2 or 3 ranks over MPI or MCCL; those that are not ``quick`` are marked slow."""
    every = product((2, 3), ("mpi", "mccl"))
    return [job if job in quick else pytest.param(job, marks=pytest.mark.slow) for job in every]


def left_by_all(output: Path, name: str = "rank") -> Any:
    """What each rank of a program has left in ``<name><r>.json``, which must be the same."""
    first, *others = [json.loads(path.read_text()) for path in sorted(output.glob(f"{name}*.json"))]
    assert others and all(other == first for other in others)
    return first
