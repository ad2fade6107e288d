"""TCP ports of this machine: MindSpore's scheduler listens at one."""

import socket

from mindnlp_dp_plugin.errors import DataParallelError

LOOPBACK = "127.0.0.1"


def free_port(port: int = 0) -> int:
    """A port that can be listened on.

    Args:
        port: This one; 0 for any.

    Raises:
        DataParallelError: If it is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, bool(port))  # a port in TIME_WAIT is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise DataParallelError(
                "--master-port {port} cannot be used ({error}): give another one, or leave the option out.",
                port=port,
                error=error.strerror,
            ) from None
        return probe.getsockname()[1]
