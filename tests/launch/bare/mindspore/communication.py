"""A scheduler that waits for workers that never call."""

import time


def init():
    """Waits for ever."""
    time.sleep(600)
