"""Checkpoints that a system which moves jobs between nodes keeps elsewhere than in ``output_dir``."""

from collections.abc import Callable
from pathlib import Path

_bring: Callable[[Path], Path | None] | None = None


def keep(bring: Callable[[Path], Path | None]) -> None:
    """From now on, before ``train()`` chooses from which checkpoint it goes on, bring the newest to ``output_dir``.

    Args:
        bring: Gets ``output_dir``; returns the checkpoint in it, or None if the system has none of that folder. All
            ranks call it.
    """
    global _bring
    _bring = bring


def bring_back(home: str | Path) -> Path | None:
    """The newest checkpoint that is kept elsewhere, in ``home``; None without one. All ranks must call it."""
    return _bring(Path(home)) if _bring else None
