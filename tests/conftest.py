"""The same commit draws the same examples everywhere; ``pytest --hypothesis-profile default`` draws others."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
