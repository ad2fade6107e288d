"""TCP ports of node 0: one for the scheduler of MindSpore's cluster and, with several nodes, one for the launchers."""

import errno
import socket

from mindnlp_dp_plugin.errors import DataParallelError

LOOPBACK = "127.0.0.1"
HIGHEST = 65535
LONGEST_WAIT_S = 600  # as long as MindSpore's scheduler waits for its workers


def free_port() -> int:
    """A free port of this node."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def control_port(master_port: int) -> int:
    """The port at which node 0's launcher listens to the other nodes'."""
    return master_port + 1


def require_free(address: str, port: int, master_port: int, is_own_option: bool = False) -> None:
    """Check that ``port`` can be listened on.

    Args:
        address: An address of this node.
        port: The port to check.
        master_port: The port the user gave.
        is_own_option: Whether ``--bind-address`` gave the address, not ``--master-addr``.

    Raises:
        DataParallelError: If the port is taken, or the address belongs to another node.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise DataParallelError(
                    "--bind-address {address} is no address of this node: give one of its own, or 0.0.0.0 for all."
                    if is_own_option
                    else "--master-addr {address} is no address of this node: node rank 0 must run on the master, or "
                    "listen at --bind-address.",
                    address=address,
                ) from None
            raise DataParallelError(
                "--master-port {master_port} cannot be used on {address} ({error}): give another one, or on a single "
                "node leave the option out."
                if port == master_port
                else "--master-port {master_port}: it takes {port}, too, which cannot be used on {address} ({error}): "
                "give another one, or on a single node leave the option out.",
                master_port=master_port,
                port=port,
                address=address,
                error=error.strerror,
            ) from None
