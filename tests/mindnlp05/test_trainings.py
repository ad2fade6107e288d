"""The stories of trainings that ``tests/distributed/test_trainings.py`` tells, with Hugging Face's Trainer."""

from tests.distributed.test_trainings import *  # noqa: F403
