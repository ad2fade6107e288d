"""One step of data-parallel training, whoever runs the loop: count, weigh, scale, forward, arm, backward, finish, clip.

``step.py`` is the page to read; ``port.py`` says what it asks of a loop.
"""

from mindnlp_dp_plugin.step.clock import Clock
from mindnlp_dp_plugin.step.step import Step

__all__ = ["Clock", "Step"]
