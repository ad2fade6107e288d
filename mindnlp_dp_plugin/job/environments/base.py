"""The contract of a launcher's class, and how numbers are read from variables."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import Nodes

Environ = Mapping[str, str]


class Environment(ABC):
    """The variables that one launcher sets for the processes it starts.

    Attributes:
        variables: Those that describe a rank; ``mindnlp-dp run`` hides them from the ranks it starts.
    """

    variables: tuple[str, ...] = ()

    @abstractmethod
    def is_present(self, environ: Environ) -> bool:
        """Whether this launcher has started the process."""

    @abstractmethod
    def rank_info(self, environ: Environ) -> RankInfo:
        """Which rank the process is.

        Raises:
            DataParallelError: If it is one of several processes that cannot form a job, or a variable has a wrong
                value.
        """

    def nodes(self, environ: Environ) -> Nodes | None:
        """The nodes of which the process is on one; None if the variables speak of none or of one.

        Raises:
            DataParallelError: If a variable has a wrong value.
        """
        return None


def number(environ: Environ, name: str, hint: str) -> int:
    """The whole number from 0 that a variable holds."""
    if name not in environ:
        raise DataParallelError("{name} is not set: {hint}.", name=name, hint=hint)
    try:
        value = int(environ[name])
    except ValueError:
        value = -1
    if value < 0:
        raise DataParallelError(
            "{name}={value!r} is not a whole number from 0: {hint}.", name=name, value=environ[name], hint=hint
        )
    return value


def count(environ: Environ, name: str, hint: str) -> int:
    """The whole number from 1 that a variable holds."""
    value = number(environ, name, hint)
    if value == 0:
        raise DataParallelError("{name}=0 leaves no rank: {hint}.", name=name, hint=hint)
    return value


def count_up_to(environ: Environ, name: str, limit: int, limit_name: str, hint: str) -> int:
    """The whole number from 1 to ``limit`` that a variable holds."""
    value = count(environ, name, hint)
    if value > limit:
        raise DataParallelError(
            "{name}={value} must be at most {limit_name}={limit}: {hint}.",
            name=name,
            value=value,
            limit_name=limit_name,
            limit=limit,
            hint=hint,
        )
    return value


def number_below(environ: Environ, name: str, limit: int, limit_name: str, hint: str) -> int:
    """The whole number from 0 to ``limit - 1`` that a variable holds."""
    value = number(environ, name, hint)
    if value >= limit:
        raise DataParallelError(
            "{name}={value} must be below {limit_name}={limit}: {hint}.",
            name=name,
            value=value,
            limit_name=limit_name,
            limit=limit,
            hint=hint,
        )
    return value


def port(environ: Environ, name: str, hint: str) -> int:
    """The TCP port that a variable holds."""
    value = count(environ, name, hint)
    if value > 65535:
        raise DataParallelError("{name}={value} is not a port: {hint}.", name=name, value=value, hint=hint)
    return value
