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


def number(environ: Environ, name: str, hint: str, least: int = 0, most: int | None = None) -> int:
    """The whole number that a variable holds.

    Args:
        environ: The variables.
        name: The variable.
        hint: Who sets it.
        least: The least that it may be.
        most: The most that it may be; None for any.
    """
    if name not in environ:
        raise DataParallelError("{name} is not set: {hint}.", name=name, hint=hint)
    try:
        value = int(environ[name])
    except ValueError:
        value = -1
    if value < least or (most is not None and value > most):
        known = {"name": name, "value": environ[name], "least": least, "hint": hint}
        if most is None:
            raise DataParallelError("{name}={value!r} is not a whole number from {least}: {hint}.", **known)
        raise DataParallelError(
            "{name}={value!r} is not a whole number from {least} to {most}: {hint}.", most=most, **known
        )
    return value
