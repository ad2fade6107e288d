"""Let each rank hear how the others end, where no launcher ends them all: of srun, and on several machines.

MindSpore's scheduler misses a rank after 30 s, and ends rank 0 by a signal, with no word of whose fault it is; mpirun
notices no link that is down. So each rank holds a connection to rank 0, over which it says how it ends, and rank 0
passes it on. The kernel closes that of a rank that is killed, and notices a link that is down or a machine that is off.
"""

import hmac
import logging
import os
import secrets
import socket
import struct
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import IntEnum

import psutil

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.collectives.connection import Connection
from mindnlp_dp_plugin.language import Message, tr

MEETING = Message("the address where ranks learn that others have ended")
TIE_S = 10
POLL_S = 0.01
TOKEN = 32
HELLO = struct.Struct(f"!{TOKEN}si")  # the token of rank 0, and who calls
WORD = struct.Struct("!ii")  # a rank, and how it has ended

logger = logging.getLogger(__name__)


class End(IntEnum):
    """How a rank has ended."""

    DONE = 0  # it needs nobody, and nobody needs it
    FAILED = 1
    GONE = 2  # without a word


@dataclass(frozen=True)
class Loss:
    """A rank that did not end well.

    Attributes:
        rank: Which.
        end: How.
        since: When this rank heard of it, on the machine's monotonic clock.
    """

    rank: int
    end: End
    since: float


class Lifeline:
    """This rank's connections: rank 0 has one to each other rank, another rank one to rank 0.

    Args:
        rank: This rank.
        connections: By the rank at the other end.
    """

    def __init__(self, rank: int, connections: dict[int, Connection]):
        self._rank = rank
        self._connections = connections
        self._ended: dict[int, End] = {}
        self._first: Loss | None = None
        os.register_at_fork(after_in_child=self._close)  # or a child would hold them when this rank is gone

    def say(self, end: End) -> None:
        """Tell the others how this rank ends."""
        self._tell(self._rank, end)

    def first_lost(self) -> Loss | None:
        """The first rank that has ended, but was not done; None so far. Does not wait."""
        for other, connection in self._connections.items():
            while said := connection.receive(WORD.size):
                rank, end = WORD.unpack(said)
                self._note(rank, End(end))
            if connection.is_lost:
                self._note(other, End.GONE)
        return self._first

    def _note(self, rank, end):
        if rank in self._ended:
            return
        self._ended[rank] = end
        if end != End.DONE and self._first is None:
            self._first = Loss(rank, end, time.monotonic())
        if self._rank == 0:
            self._tell(rank, end)

    def _tell(self, rank, end):
        for connection in self._connections.values():
            connection.send(WORD.pack(rank, end))

    def _close(self):
        for connection in self._connections.values():
            connection.close()


def tie(collective: Collective, scheduler: tuple[str, int] | None) -> Lifeline:
    """Connect the ranks. All ranks must call it.

    Ranks that cannot be connected train all the same; rank 0 says so.

    Args:
        collective: The ranks.
        scheduler: The address and port of MindSpore's scheduler: rank 0 listens in the same network. None if there is
            none: then it listens in all of its networks.
    """
    if collective.rank:
        return Lifeline(collective.rank, _call_rank_0(collective))
    family, addresses = _own_address(*scheduler) if scheduler else _all_own_addresses()
    where = addresses[0] if len(addresses) == 1 else ""
    with closing(socket.create_server((where, 0), family=family, backlog=collective.world_size)) as listener:
        tied = _receive(listener, addresses, collective)
    if missing := sorted({*range(1, collective.world_size)} - {*tied}):
        logger.warning(
            tr(
                "Ranks {ranks} cannot connect to rank 0 at {address}: if one of them fails, the others notice it "
                "half a minute later.",
                ranks=missing,
                address=" ".join(addresses),
            )
        )
    return Lifeline(0, tied)


def _own_address(scheduler, port):
    """The kind of address, and this machine's own, by which it reaches the scheduler. Nothing is sent."""
    family, *_, there = socket.getaddrinfo(scheduler, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(there)
        return family, [probe.getsockname()[0]]


def _all_own_addresses():
    of_interfaces = [address for found in psutil.net_if_addrs().values() for address in found]
    own = [each.address for each in of_interfaces if each.family == socket.AF_INET]
    return socket.AF_INET, [address for address in own if not address.startswith("127.")] or ["127.0.0.1"]


def _call_rank_0(collective):
    addresses, port, token = collective.all_gather_object(None, MEETING)[0]
    for address in addresses:
        with suppress(OSError):
            connection = Connection(socket.create_connection((address, port), TIE_S / len(addresses)))
            connection.send(HELLO.pack(token, collective.rank))
            return {0: connection}
    return {}


def _receive(listener, addresses, collective):
    """The other ranks' connections; whoever does not know the token is no rank."""
    token = secrets.token_bytes(TOKEN)
    collective.all_gather_object((addresses, listener.getsockname()[1], token), MEETING)
    listener.setblocking(False)
    tied, waiting, deadline = {}, [], time.monotonic() + TIE_S
    while len(tied) < collective.world_size - 1 and time.monotonic() < deadline:
        with suppress(OSError):  # nobody yet, or no more descriptors
            waiting.append(Connection(listener.accept()[0]))
        for connection in tuple(waiting):
            if hello := connection.receive(HELLO.size):
                waiting.remove(connection)  # what a rank says next is not for here
                said, rank = HELLO.unpack(hello)
                if hmac.compare_digest(said, token):
                    tied[rank] = connection
        time.sleep(POLL_S)
    return tied
