"""Loggers that say on which rank they speak."""

import logging

from mindnlp_dp_plugin.distributed.ranks import get_rank

LIBRARY = "mindnlp"


class RankLogger(logging.LoggerAdapter):
    """A logger as any other on rank 0; on replicas a quieter one, whose records begin with the rank."""

    def isEnabledFor(self, level):
        """Whether a record of this level is written by this rank."""
        return super().isEnabledFor(level) and (get_rank() == 0 or level >= _replica_level())

    def process(self, msg, kwargs):
        """The record's message, and its other parts as they are."""
        rank = get_rank()
        return (f"[rank {rank}] {msg}" if rank else msg), kwargs


def get_logger(name: str | None = None) -> RankLogger:
    """A logger for a script that runs on several ranks. May be called on any rank, before or after they have joined.

    Rank 0 logs as ``logging.getLogger(name)`` does. The others log what is also at or above the level of MindNLP's own
    loggers there, which the Trainer sets from ``TrainingArguments.log_level_replica`` (``"warning"`` until a Trainer is
    made), and their records begin with ``[rank N]``.

    Args:
        name: The logger's name, as for ``logging.getLogger``.
    """
    return RankLogger(logging.getLogger(name), {})


def _replica_level():
    return logging.getLogger(LIBRARY).level or logging.WARNING
