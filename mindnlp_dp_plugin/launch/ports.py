"""TCP ports of this machine: MindSpore's scheduler listens at one."""

import socket

from mindnlp_dp_plugin.errors import DataParallelError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def require_free(port: int) -> int:
    """The port, if it can be listened on.

    Raises:
        DataParallelError: If it is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise DataParallelError(
                "--master-port {port} cannot be used ({error}): give another one, or leave the option out.",
                port=port,
                error=error.strerror,
            ) from None
    return port
