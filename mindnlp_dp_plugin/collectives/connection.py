"""A connection between two ranks: records of a known length, and notice when the other end is gone."""

import socket
from contextlib import suppress

VANISHED_S = 8  # without a sign of the other kernel


class Connection:
    """Bytes to and from another rank, without waiting.

    The other end counts as gone, too, if its machine does not answer for 8 s. The kernels find out: their keep-alive
    continues while a rank is suspended.

    Args:
        connected: The socket.

    Attributes:
        is_lost: Whether the other end is gone.
    """

    def __init__(self, connected: socket.socket):
        self.is_lost = False
        self._socket = connected
        self._received = b""
        for option, value in {
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
            (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): VANISHED_S - 1,
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): VANISHED_S * 1000,
        }.items():
            connected.setsockopt(*option, value)
        connected.setblocking(False)

    def send(self, record: bytes) -> None:
        """Send a record. ``receive`` notices a lost connection."""
        with suppress(OSError):
            self._socket.sendall(record)

    def receive(self, size: int) -> bytes | None:
        """The next record, if all of its bytes have come."""
        try:
            received = self._socket.recv(size - len(self._received))
        except BlockingIOError:
            return None
        except OSError:
            received = b""
        self.is_lost = not received
        self._received += received
        if len(self._received) < size:
            return None
        record, self._received = self._received, b""
        return record

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
