"""A wire between two network devices, as slow and as long as one likes, for kernels without netem.

    python wire.py FIRST SECOND BYTES_PER_S DELAY_S

Frames come in order. Each takes its length over BYTES_PER_S of the wire's time, as one direction knows it, and arrives
DELAY_S after its last byte was sent. What the kernel would cut into packets later (segmentation offload) travels whole.
"""

import os
import select
import socket
import sys
import time
from collections import deque

# Not in the module socket.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
VNET_HEADER_BYTES = 10
MAX_FRAME_BYTES = 2**17
BUFFER_BYTES = 2**26


class Direction:
    """From one device to the other."""

    def __init__(self, source, target, bytes_per_s, delay_s):
        self.source = source
        self._target = target
        self._bytes_per_s = bytes_per_s
        self._delay_s = delay_s
        self._is_free_at = 0.0
        self._under_way = deque()

    def take(self):
        """What has come in is put on the wire."""
        frame = self.source.recv(MAX_FRAME_BYTES)
        begins = max(time.monotonic(), self._is_free_at)
        self._is_free_at = begins + (len(frame) - VNET_HEADER_BYTES) / self._bytes_per_s
        self._under_way.append((self._is_free_at + self._delay_s, frame))

    def deliver(self):
        """What is due; returns the seconds to the next, None if nothing is under way."""
        while self._under_way:
            due, frame = self._under_way[0]
            if (wait := due - time.monotonic()) > 0:
                return wait
            self._under_way.popleft()
            self._target.send(frame)
        return None


def open_device(name):
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    device.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    device.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    device.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    device.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    device.bind((name, ETH_P_ALL))
    return device


def main(first, second, bytes_per_s, delay_s):
    os.nice(-20)  # a wire does not wait for its turn
    devices = open_device(first), open_device(second)
    directions = [Direction(*ends, float(bytes_per_s), float(delay_s)) for ends in (devices, devices[::-1])]
    print("connected", flush=True)
    while True:
        waits = [wait for direction in directions if (wait := direction.deliver()) is not None]
        ready, _, _ = select.select(devices, [], [], min(waits, default=None))
        for direction in directions:
            if direction.source in ready:
                direction.take()


main(*sys.argv[1:])
