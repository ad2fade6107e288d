"""Ports for tests that run beside each other."""

import secrets
import socket
from contextlib import suppress


def free_port() -> int:
    """A port that is free, as is the next one, which a job may take, too; none of those that a system deals out."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
            socket.create_server(("127.0.0.1", port + 1)),
        ):
            return port
