"""Loggers that name their rank."""

import logging

from mindnlp_dp_plugin.distributed.ranks import get_rank

LIBRARY = "mindnlp"


class RankLogger(logging.LoggerAdapter):
    """A usual logger on rank 0; on other ranks a quieter one whose records begin with the rank."""

    def isEnabledFor(self, level):
        """Whether this rank writes records of this level."""
        return super().isEnabledFor(level) and (get_rank() == 0 or level >= _replica_level())

    def process(self, msg, kwargs):
        """Put the rank in front of the message."""
        rank = get_rank()
        return (f"[rank {rank}] {msg}" if rank else msg), kwargs


def get_logger(name: str | None = None) -> RankLogger:
    """A logger for a script that runs on several ranks. Any rank may call it, at any time.

    Rank 0 logs as ``logging.getLogger(name)`` does. Other ranks log records at or above the level of MindNLP's loggers,
    which the Trainer sets from ``TrainingArguments.log_level_replica`` (``"warning"`` before a Trainer is made), and
    their records begin with ``[rank N]``.

    Args:
        name: The logger's name, as for ``logging.getLogger``.

    Examples:
        >>> logger = dp.get_logger(__name__)
        >>> logger.warning("rank 0 logs this as it is, others with [rank N] in front")
    """
    return RankLogger(logging.getLogger(name), {})


def _replica_level():
    return logging.getLogger(LIBRARY).level or logging.WARNING
