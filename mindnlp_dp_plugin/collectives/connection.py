"""A connection between two ranks: JSON messages, and notice when the other end is gone."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mindnlp_dp_plugin.language import Message, tr

VANISHED_S = 8  # without a sign of the other kernel
STRANGE = Message("it does not speak the protocol of mindnlp-dp")
MAX_LINE_BYTES = 2**16


class Connection:
    """Lines of JSON to and from another process, without waiting.

    Args:
        connected: The socket.
        address: The other end's address.

    Attributes:
        address: The same.
        lost: Why the other end is gone; None while it is there.
    """

    def __init__(self, connected: socket.socket, address: str):
        self.lost: str | None = None
        self.address = address
        self._socket = connected
        self._received = b""
        connected.setblocking(False)

    def watch_link(self) -> None:
        """Count the other end as gone if its machine does not answer for 8 s.

        The kernels find out: their keep-alive continues while a rank is suspended.
        """
        for option, value in {
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
            (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): VANISHED_S - 1,
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): VANISHED_S * 1000,
        }.items():
            self._socket.setsockopt(*option, value)

    def send(self, **message: Any) -> None:
        """Send a message. ``receive`` notices a lost connection."""
        with suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Iterator[dict[str, Any]]:
        """The messages that have come; those that are not taken come again with the next call."""
        self._read()
        while b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                return self.drop()
            yield message
        if len(self._received) > MAX_LINE_BYTES:
            self.drop()

    def _read(self):
        if self.lost:
            return
        try:
            received = self._socket.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.lost = tr("{error} (link or machine down?)", error=error.strerror)
            return
        if not received:
            self.lost = tr("it closed the connection")
        self._received += received

    def drop(self) -> None:
        """Close a connection whose messages are invalid."""
        self.lost, self._received = STRANGE, b""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
