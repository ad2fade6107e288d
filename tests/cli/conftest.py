"""The same runner as in tests/launch."""

from tests.launch.conftest import runner  # noqa: F401
