"""What the link itself allows, beside ``all_reduces.py``: two hosts exchange messages over a plain socket.

    python plain_sockets.py OUTPUT SIZE... NODE_RANK ADDRESS PORT

Both send SIZE bytes and receive as many, at the same time: an all-reduce of two ranks without the sum. Host 0 leaves
the seconds for each SIZE in ``OUTPUT/seconds.json``.
"""

import json
import socket
import sys
import threading
import time
from pathlib import Path

OUTPUT, SIZES = Path(sys.argv[1]), [int(size) for size in sys.argv[2:-3]]
NODE_RANK, ADDRESS, PORT = int(sys.argv[-3]), sys.argv[-2], int(sys.argv[-1])
NUM_ROUNDS = 8
PATIENCE_S = 30


def connect():
    if NODE_RANK == 0:
        with socket.create_server((ADDRESS, PORT)) as listener:
            listener.settimeout(PATIENCE_S)
            return listener.accept()[0]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((ADDRESS, PORT))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def exchange(peer, message):
    sending = threading.Thread(target=peer.sendall, args=(message,))
    sending.start()
    missing = len(message)
    while missing:
        missing -= len(peer.recv(min(missing, 2**20)))
    sending.join()


def seconds(peer, size):
    message = bytes(size)
    exchange(peer, message)  # TCP finds out how fast it may send
    began = time.perf_counter()
    for _ in range(NUM_ROUNDS):
        exchange(peer, message)
    return (time.perf_counter() - began) / NUM_ROUNDS


peer = connect()
peer.settimeout(None)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = [seconds(peer, size) for size in SIZES]
if NODE_RANK == 0:
    (OUTPUT / "seconds.json").write_text(json.dumps(times))
