"""The ranks of a job and what they do together: one contract, and one short file per engine."""

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.collectives.process_group import (
    compared_at_the_end,
    current,
    join,
    pretend,
    see_off,
    shutdown,
    tell_failure,
)
from mindnlp_dp_plugin.collectives.require_same import require_same

__all__ = [
    "Collective",
    "Work",
    "compared_at_the_end",
    "current",
    "join",
    "pretend",
    "require_same",
    "see_off",
    "shutdown",
    "tell_failure",
]
