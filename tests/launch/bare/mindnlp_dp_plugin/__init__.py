"""The plugin without its front door: importing and arming it starts nothing, so starting ranks is quick to test."""

from pathlib import Path

__path__.append(str(Path(__file__).parents[4] / "mindnlp_dp_plugin"))


def install():
    """Arms nothing."""
